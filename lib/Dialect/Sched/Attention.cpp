//===- Attention.cpp - attention by strides -------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Sched/Sched.h"

using namespace mlir;
using namespace tandem::sched;

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

namespace {
/// What `nn.attention` or its backward has.
struct Counts {
  explicit Counts(bool backward)
      : own(backward ? 6 : 3), stridedInputs(backward ? 5 : 3),
        results(backward ? 3 : 2), stridedResults(backward ? 3 : 1) {}
  size_t own, stridedInputs, results, stridedResults;
};

/// The first three sizes of a tensor of four dimensions, and its width.
struct Extents {
  int64_t batch, heads, rows, width;
};
} // namespace

/// Of the strided tensors in the order of their strides.
static SmallVector<Extents> getExtents(bool backward, ArrayRef<int64_t> sizes) {
  Extents query = {sizes[0], sizes[1], sizes[3], sizes[5]};
  Extents output = {sizes[0], sizes[1], sizes[3], sizes[6]};
  Extents key = {sizes[0], sizes[2], sizes[4], sizes[5]};
  Extents value = {sizes[0], sizes[2], sizes[4], sizes[6]};
  if (backward)
    return {output, query, key, value, output, query, key, value};
  return {query, key, value, output};
}

/// One past the last element that strides reach; 0 if there is no element.
static int64_t getEnd(const Extents &extents, ArrayRef<int64_t> strides) {
  if (!extents.batch || !extents.heads || !extents.rows || !extents.width)
    return 0;
  return (extents.batch - 1) * strides[0] + (extents.heads - 1) * strides[1] +
         (extents.rows - 1) * strides[2] + extents.width;
}

static size_t countInputs(bool backward, bool isMasked, bool hasBand,
                          bool hasDropout) {
  return Counts(backward).own + isMasked + hasBand + 3 * hasDropout;
}

template <typename OpT> static LogicalResult verifyCounts(OpT op) {
  constexpr size_t kSizes = 7, kStrides = 3;
  Counts counts(op.getBackward());
  size_t strided = counts.stridedInputs + counts.stridedResults;
  size_t inputs = countInputs(op.getBackward(), op.getMaskStrides().has_value(),
                              op.getBefore() || op.getAfter(),
                              op.getDropout().convertToDouble() > 0);
  if (op.getSizes().size() != kSizes ||
      op.getStrides().size() != kStrides * strided)
    return op.emitOpError("has ")
           << op.getSizes().size() << " sizes and " << op.getStrides().size()
           << " strides, expected 7 and " << kStrides * strided;
  if (op.getInputs().size() != inputs)
    return op.emitOpError("has ")
           << op.getInputs().size() << " inputs, expected " << inputs;
  return success();
}

/// Checks what strides reach in `tensors`, those of inputs and results that
/// have them; of the results each element is written.
static LogicalResult verifyReach(Operation *op, ArrayRef<Value> tensors,
                                 ArrayRef<Extents> extents,
                                 ArrayRef<int64_t> strides,
                                 ArrayRef<int64_t> offsets) {
  for (auto [number, tensor] : llvm::enumerate(tensors)) {
    int64_t elements = cast<ShapedType>(tensor.getType()).getNumElements();
    int64_t offset = number < offsets.size() ? offsets[number] : 0;
    int64_t end =
        offset + getEnd(extents[number], strides.slice(3 * number, 3));
    if (end > elements || offset < 0)
      return op->emitOpError("tensor ") << number << " reaches element " << end
                                        << ", expected at most " << elements;
  }
  return success();
}

template <typename OpT>
static LogicalResult verifyAttention(OpT op, ValueRange results,
                                     ArrayRef<int64_t> offsets) {
  if (failed(verifyCounts(op)))
    return failure();
  Counts counts(op.getBackward());
  if (results.size() != counts.results)
    return op.emitOpError("has ")
           << results.size() << " results, expected " << counts.results;
  SmallVector<Value> tensors(op.getInputs().take_front(counts.stridedInputs));
  llvm::append_range(tensors, results.take_front(counts.stridedResults));
  return verifyReach(op, tensors, getExtents(op.getBackward(), op.getSizes()),
                     op.getStrides(), offsets);
}

LogicalResult AttentionOp::verify() {
  if (getOffsets().size() != Counts(getBackward()).stridedInputs)
    return emitOpError("has ") << getOffsets().size() << " offsets, expected "
                               << Counts(getBackward()).stridedInputs;
  return verifyAttention(*this, getResults(), getOffsets());
}

LogicalResult AttendOp::verify() {
  return verifyAttention(*this, getOutputs(), {});
}

//===----------------------------------------------------------------------===//
// A call of a library
//===----------------------------------------------------------------------===//

/// Batch, heads, queries, keys and the width of the products.
SmallVector<int64_t> AttentionOp::getLoopSizes() {
  ArrayRef<int64_t> sizes = getSizes();
  return {sizes[0], sizes[1], sizes[3], sizes[4], sizes[5]};
}

int64_t AttentionOp::getFlops() { return getOperations(); }

void AttentionOp::buildCommand(OpBuilder &builder, ValueRange operands,
                               ValueRange results, Value workspace,
                               const Place &place) {
  SmallVector<Value> inputs(operands);
  for (auto [input, offset] : llvm::zip(inputs, getOffsets()))
    input = getReached(builder, getLoc(), input, offset);
  StringRef label = getBackward() ? "attention_backward" : "attention";
  int64_t bytes = countBytes(inputs) + countBytes(results);
  AttendOp::create(
      builder, getLoc(), inputs, results, getBackwardAttr(), getSizesAttr(),
      getStridesAttr(), getMaskStridesAttr(), getScaleAttr(), getBeforeAttr(),
      getAfterAttr(), getDropoutAttr(), getOrdinalAttr(), place.queue,
      builder.getI64IntegerAttr(place.stage),
      builder.getI64IntegerAttr(place.strand), builder.getStringAttr(label),
      builder.getI64IntegerAttr(getFlops()), builder.getI64IntegerAttr(bytes));
}

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

SmallVector<Value> AttendOp::getReads() { return getInputs(); }
SmallVector<Value> AttendOp::getWrites() { return getOutputs(); }
