//===- Convolution.cpp - convolution by strides ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Sched/Sched.h"
#include "tandem/Dialect/Sched/Workspace.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem::sched;

namespace {
/// One of the three tensors.
struct Operand {
  StringRef name;
  Value memory;
  ArrayRef<int64_t> shape, strides;
  int64_t offset;
};
} // namespace

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

static int64_t count(ArrayRef<int64_t> shape) {
  int64_t product = 1;
  for (int64_t size : shape)
    product *= size;
  return product;
}

/// Input, weight and output, of which `destination` is what the kind makes.
template <typename OpT>
static SmallVector<Operand, 3> getOperandsOf(OpT op, Value destination,
                                             ArrayRef<int64_t> offsets) {
  Operand lhs{"", op.getLhs(), {}, {}, offsets[0]};
  Operand rhs{"", op.getRhs(), {}, {}, offsets[1]};
  Operand made{"", destination, {}, {}, 0};
  SmallVector<Operand, 3> operands;
  if (op.getKind() == ConvolutionKind::Forward)
    operands = {lhs, rhs, made};
  else if (op.getKind() == ConvolutionKind::InputGradient)
    operands = {made, rhs, lhs};
  else
    operands = {lhs, made, rhs};
  StringRef names[] = {"input", "weight", "output"};
  ArrayRef<int64_t> shapes[] = {op.getInput(), op.getWeight(), op.getOutput()};
  size_t rank = op.getInput().size();
  for (auto [i, operand] : llvm::enumerate(operands)) {
    operand.name = names[i];
    operand.shape = shapes[i];
    operand.strides = op.getStrides().slice(i * rank, rank);
  }
  return operands;
}

template <typename OpT> static LogicalResult verifyCounts(OpT op) {
  size_t rank = op.getInput().size(), dims = rank - 2;
  if (rank >= 3 && rank <= 5 && op.getWeight().size() == rank &&
      op.getOutput().size() == rank && op.getStrides().size() == 3 * rank &&
      op.getStride().size() == dims && op.getPadding().size() == dims &&
      op.getDilation().size() == dims)
    return success();
  return op.emitOpError("has shapes of ")
         << rank << ", " << op.getWeight().size() << " and "
         << op.getOutput().size() << " dimensions, " << op.getStrides().size()
         << " strides and " << op.getStride().size() << ", "
         << op.getPadding().size() << " and " << op.getDilation().size()
         << " numbers of windows, expected 3 to 5 dimensions, a stride for "
            "each "
            "and numbers for all but two";
}

static LogicalResult verifyReach(Operation *op, const Operand &operand) {
  int64_t elements =
      cast<ShapedType>(operand.memory.getType()).getNumElements();
  int64_t end = operand.offset + (count(operand.shape) > 0);
  for (auto [size, stride] : llvm::zip_equal(operand.shape, operand.strides))
    end += (size - 1) * stride;
  if (operand.offset >= 0 && end <= elements)
    return success();
  return op->emitOpError(operand.name)
         << " reaches element " << end << ", expected at most " << elements;
}

/// Every element of the result.
static LogicalResult verifyWritten(Operation *op, const Operand &operand) {
  int64_t elements =
      cast<ShapedType>(operand.memory.getType()).getNumElements();
  if (count(operand.shape) == elements)
    return success();
  return op->emitOpError("writes ")
         << count(operand.shape) << " elements, expected " << elements;
}

template <typename OpT>
static LogicalResult verifyConvolution(OpT op, Value destination,
                                       ArrayRef<int64_t> offsets) {
  if (failed(verifyCounts(op)))
    return failure();
  for (const Operand &operand : getOperandsOf(op, destination, offsets))
    if (failed(verifyReach(op, operand)))
      return failure();
    else if (operand.memory == destination &&
             failed(verifyWritten(op, operand)))
      return failure();
  return success();
}

LogicalResult ConvOp::verify() {
  if (getOffsets().size() != 2)
    return emitOpError("has ") << getOffsets().size() << " offsets, expected 2";
  return verifyConvolution(*this, getResult(), getOffsets());
}

LogicalResult ConvolveOp::verify() {
  return verifyConvolution(*this, getDestination(), {0, 0});
}

//===----------------------------------------------------------------------===//
// A call of a library
//===----------------------------------------------------------------------===//

SmallVector<int64_t> ConvOp::getLoopSizes() {
  SmallVector<int64_t> sizes(getOutput());
  llvm::append_range(sizes, getWeight().drop_front());
  return sizes;
}

/// What libraries need beside the operands: f64 a copy of the weight, and of
/// one image and group what is read, written and laid out as rows of a product;
/// the others all three tensors in blocks of channels, of so many images as are
/// done at a time. These are few, as their copies stay in a cache; but of a
/// weight's gradient, which is added up over them, as many as outweigh that,
/// and all where it is of bf16 and would be rounded for each. A library that
/// needs more has memory of its own.
int64_t tandem::sched::getConvolutionWorkspace(bool makesWeight, Type type,
                                               Type result,
                                               ArrayRef<int64_t> input,
                                               ArrayRef<int64_t> weight,
                                               ArrayRef<int64_t> output) {
  int64_t width = getElementBytes(type);
  int64_t columns = count(output.drop_front(2));
  if (type.isF64()) {
    int64_t groups =
        std::max<int64_t>(input[1] / std::max<int64_t>(weight[1], 1), 1);
    int64_t rows = count(weight.drop_front());
    return width * (count(weight) / groups + rows * columns +
                    weight[0] / groups * columns +
                    weight[1] * count(input.drop_front(2)));
  }
  constexpr int64_t kChannels = 16;
  auto blocked = [&](int64_t width, int64_t outer, int64_t channels,
                     int64_t inner) {
    return llvm::alignTo(
        outer * llvm::alignTo(channels, kChannels) * inner * width, 64);
  };
  Type ofWeight = makesWeight ? result : type;
  constexpr int64_t kCache = 1 << 20, kOutweigh = 8;
  int64_t weights =
      blocked(getElementBytes(ofWeight), llvm::alignTo(weight[0], kChannels),
              weight[1], count(weight.drop_front(2)));
  int64_t image = blocked(width, 1, input[1], count(input.drop_front(2))) +
                  blocked(width, 1, output[1], columns);
  int64_t least = kCache, images = input[0];
  if (makesWeight)
    least = ofWeight.isBF16() ? images * image
                              : std::max(least, kOutweigh * weights);
  int64_t turn =
      std::clamp<int64_t>(llvm::divideCeil(least, std::max<int64_t>(image, 1)),
                          1, std::max<int64_t>(images, 1));
  while (images % turn != 0)
    ++turn;
  return weights + turn * image;
}

int64_t ConvOp::getWorkspaceBytes() {
  return getConvolutionWorkspace(getKind() == ConvolutionKind::WeightGradient,
                                 getLhs().getType().getElementType(),
                                 getResult().getType().getElementType(),
                                 getInput(), getWeight(), getOutput());
}

static StringRef getLabel(ConvolutionKind kind) {
  switch (kind) {
  case ConvolutionKind::Forward:
    return "conv";
  case ConvolutionKind::InputGradient:
    return "conv_input_grad";
  case ConvolutionKind::WeightGradient:
    return "conv_weight_grad";
  }
  llvm_unreachable("a kind of convolution");
}

void ConvOp::buildCommand(OpBuilder &builder, ValueRange operands,
                          ValueRange results, Value workspace,
                          const Place &place) {
  Location loc = getLoc();
  Value result = results.front();
  Value lhs = getReached(builder, loc, operands[0], getOffsets()[0]);
  Value rhs = getReached(builder, loc, operands[1], getOffsets()[1]);
  SmallVector<Value> used = {lhs, rhs, result};
  ConvolveOp::create(builder, loc, lhs, rhs, result, workspace, getKind(),
                     getInput(), getWeight(), getOutput(), getStride(),
                     getPadding(), getDilation(), getStrides(), place.queue,
                     place.stage, place.strand, getLabel(getKind()), getFlops(),
                     countBytes(used));
}

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

SmallVector<Value> ConvolveOp::getReads() { return {getLhs(), getRhs()}; }

SmallVector<Value> ConvolveOp::getWrites() {
  SmallVector<Value> writes = {getDestination()};
  if (getWorkspace())
    writes.push_back(getWorkspace());
  return writes;
}
