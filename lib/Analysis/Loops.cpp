//===- Loops.cpp - nn operators as loops ----------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/Loops.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tandem;

namespace {

ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

SmallVector<int> getIdentity(int rank) {
  return llvm::to_vector(llvm::seq(rank));
}

/// Loops over the shape of `value`.
LoopOp over(Operation *op, Value value) {
  LoopOp loops;
  loops.op = op;
  loops.sizes.assign(getShape(value).begin(), getShape(value).end());
  return loops;
}

/// `value` as it broadcasts to the loops, from the last dimension on.
LoopAccess broadcast(Value value, const LoopOp &loops) {
  LoopAccess access;
  access.value = value;
  int lead = loops.sizes.size() - getShape(value).size();
  for (auto [dim, size] : llvm::enumerate(getShape(value)))
    access.dims.push_back(size == 1 ? LoopAccess::kUniform
                                    : lead + static_cast<int>(dim));
  return access;
}

/// `value` by the loops in order, but at another index on `dims`.
LoopAccess elsewhere(Value value, ArrayRef<int64_t> dims) {
  LoopAccess access;
  access.value = value;
  access.dims = getIdentity(getShape(value).size());
  for (int64_t dim : dims)
    access.dims[dim] = LoopAccess::kElsewhere;
  return access;
}

LoopOp getElementwise(Operation *op) {
  LoopOp loops = over(op, op->getResult(0));
  for (Value operand : op->getOperands())
    loops.inputs.push_back(broadcast(operand, loops));
  loops.outputs.push_back(elsewhere(op->getResult(0), {}));
  return loops;
}

/// Over the result; operands are read at another index on `dims`.
LoopOp getPiece(Operation *op, ArrayRef<int64_t> dims) {
  LoopOp loops = over(op, op->getResult(0));
  for (Value operand : op->getOperands())
    loops.inputs.push_back(elsewhere(operand, dims));
  loops.outputs.push_back(elsewhere(op->getResult(0), {}));
  return loops;
}

LoopOp getPermute(nn::PermuteOp op) {
  LoopOp loops = over(op, op.getResult());
  LoopAccess access;
  access.value = op.getInput();
  access.dims.resize(loops.sizes.size());
  for (auto [to, from] : llvm::enumerate(op.getPermutation()))
    access.dims[from] = to;
  loops.inputs.push_back(access);
  loops.outputs.push_back(elsewhere(op.getResult(), {}));
  return loops;
}

LoopOp getReduction(Operation *op, ArrayRef<int64_t> dims) {
  Value input = op->getOperand(0), result = op->getResult(0);
  LoopOp loops = over(op, input);
  loops.inputs.push_back(elsewhere(input, {}));
  LoopAccess access;
  access.value = result;
  bool keepdim = getShape(result).size() == getShape(input).size();
  for (int dim : getIdentity(getShape(input).size())) {
    bool reduced = llvm::is_contained(dims, dim);
    if (!reduced || keepdim)
      access.dims.push_back(reduced ? LoopAccess::kUniform : dim);
  }
  loops.outputs.push_back(access);
  return loops;
}

LoopOp getAlongDim(Operation *op, int64_t dim) {
  LoopOp loops = getPiece(op, {});
  loops.whole.push_back(dim);
  return loops;
}

/// Loops over the input of a layer norm, of which the last ones are whole.
LoopOp getNormalized(Operation *op, Value input, int64_t normalizedRank) {
  LoopOp loops = over(op, input);
  for (Value operand : op->getOperands())
    loops.inputs.push_back(broadcast(operand, loops));
  int rank = loops.sizes.size();
  for (int dim = rank - normalizedRank; dim < rank; ++dim)
    loops.whole.push_back(dim);
  for (Value result : op->getResults())
    loops.outputs.push_back(broadcast(result, loops));
  return loops;
}

LoopOp getEmbedding(nn::EmbeddingOp op) {
  LoopOp loops = over(op, op.getResult());
  LoopAccess weight;
  weight.value = op.getWeight();
  weight.dims.assign(getShape(op.getWeight()).size(), LoopAccess::kElsewhere);
  loops.inputs = {weight, elsewhere(op.getIndices(), {})};
  loops.outputs.push_back(elsewhere(op.getResult(), {}));
  return loops;
}

LoopOp getGather(nn::GatherOp op) {
  LoopOp loops = over(op, op.getResult());
  loops.inputs = {elsewhere(op.getInput(), op.getDim()),
                  elsewhere(op.getIndex(), {})};
  loops.outputs.push_back(elsewhere(op.getResult(), {}));
  return loops;
}

} // namespace

std::optional<LoopOp> tandem::getLoops(Operation *op) {
  using Result = std::optional<LoopOp>;
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case<nn::SumOp, nn::MaxOp, nn::MinOp, nn::ProdOp>(
          [](auto sum) { return getReduction(sum, sum.getDims()); })
      .Case([](nn::ArgmaxOp argmax) {
        return getReduction(argmax, argmax.getDim());
      })
      .Case<nn::SoftmaxOp, nn::LogSoftmaxOp, nn::SoftmaxBackwardOp,
            nn::LogSoftmaxBackwardOp>(
          [](auto softmax) { return getAlongDim(softmax, softmax.getDim()); })
      .Case<nn::LayerNormOp, nn::LayerNormBackwardOp>([](auto norm) {
        return getNormalized(norm, norm.getInput(), norm.getNormalizedRank());
      })
      .Case([](nn::PermuteOp permute) { return getPermute(permute); })
      .Case<nn::SliceOp, nn::PadOp, nn::CatOp, spmd::LocalSliceOp>(
          [](auto piece) { return getPiece(piece, piece.getDim()); })
      .Case([](nn::FlipOp flip) { return getPiece(flip, flip.getDims()); })
      .Case([](spmd::KeepFirstOp keep) { return getPiece(keep, {}); })
      .Case([](nn::EmbeddingOp lookup) { return getEmbedding(lookup); })
      .Case([](nn::GatherOp gather) { return getGather(gather); })
      .Default([](Operation *other) -> Result {
        if (other->hasTrait<nn::Broadcasting>())
          return getElementwise(other);
        return std::nullopt;
      });
}
