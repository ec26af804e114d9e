//===- Loops.cpp - loops of nn operators ----------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/Loops.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace tandem::spmd;

namespace tandem::nn {

static int64_t getRank(Value value) {
  return cast<RankedTensorType>(value.getType()).getRank();
}

std::optional<LoopOp> buildElementwiseLoops(Operation *op) {
  LoopOp loops = loopOver(op, op->getResult(0));
  for (Value operand : op->getOperands())
    loops.inputs.push_back(broadcastTo(operand, loops));
  loops.outputs.push_back(accessInOrder(op->getResult(0)));
  return loops;
}

std::optional<LoopOp> buildReductionLoops(Operation *op) {
  Value input = op->getOperand(0), result = op->getResult(0);
  LoopOp loops = loopOver(op, input);
  loops.inputs.push_back(accessInOrder(input));
  LoopAccess access;
  access.value = result;
  bool keepdim = getRank(result) == getRank(input);
  SmallVector<int64_t> dims = getDimsOf(op);
  for (int64_t dim = 0; dim < getRank(input); ++dim) {
    bool reduced = llvm::is_contained(dims, dim);
    if (!reduced || keepdim)
      access.dims.push_back(reduced ? LoopAccess::kUniform : int(dim));
  }
  loops.outputs.push_back(access);
  return loops;
}

std::optional<LoopOp> buildAlongDimLoops(Operation *op) {
  LoopOp loops = loopOver(op, op->getResult(0));
  for (Value operand : op->getOperands())
    loops.inputs.push_back(accessInOrder(operand));
  loops.outputs.push_back(accessInOrder(op->getResult(0)));
  loops.whole.push_back(getDimsOf(op).front());
  return loops;
}

std::optional<LoopOp> buildNormalizedLoops(Operation *op) {
  LoopOp loops = loopOver(op, op->getOperand(0));
  for (Value operand : op->getOperands())
    loops.inputs.push_back(broadcastTo(operand, loops));
  int rank = loops.sizes.size();
  int64_t normalized =
      cast<IntegerAttr>(op->getAttr("normalized_rank")).getInt();
  for (int dim = rank - normalized; dim < rank; ++dim)
    loops.whole.push_back(dim);
  for (Value result : op->getResults())
    loops.outputs.push_back(broadcastTo(result, loops));
  return loops;
}

std::optional<LoopOp> buildPermuteLoops(Operation *op) {
  LoopOp loops = loopOver(op, op->getResult(0));
  LoopAccess access;
  access.value = op->getOperand(0);
  access.dims.resize(loops.sizes.size());
  auto permutation = cast<DenseI64ArrayAttr>(op->getAttr("permutation"));
  for (auto [to, from] : llvm::enumerate(permutation.asArrayRef()))
    access.dims[from] = to;
  loops.inputs.push_back(access);
  loops.outputs.push_back(accessInOrder(op->getResult(0)));
  return loops;
}

std::optional<LoopOp> buildEmbeddingLoops(Operation *op) {
  LoopOp loops = loopOver(op, op->getResult(0));
  Value table = op->getOperand(0);
  auto everywhere = llvm::to_vector(llvm::seq<int64_t>(0, getRank(table)));
  loops.inputs = {accessInOrder(table, everywhere),
                  accessInOrder(op->getOperand(1))};
  loops.outputs.push_back(accessInOrder(op->getResult(0)));
  return loops;
}

std::optional<LoopOp> buildGatherLoops(Operation *op) {
  LoopOp loops = loopOver(op, op->getResult(0));
  loops.inputs = {accessInOrder(op->getOperand(0), getDimsOf(op)),
                  accessInOrder(op->getOperand(1))};
  loops.outputs.push_back(accessInOrder(op->getResult(0)));
  return loops;
}

} // namespace tandem::nn
