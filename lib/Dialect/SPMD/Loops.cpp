//===- Loops.cpp - operators as loops -------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/SPMD/Loops.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;

namespace tandem::spmd {

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

LoopOp loopOver(Operation *op, Value value) {
  LoopOp loops;
  loops.op = op;
  loops.sizes.assign(getShape(value).begin(), getShape(value).end());
  return loops;
}

LoopAccess broadcastTo(Value value, const LoopOp &loops) {
  LoopAccess access;
  access.value = value;
  int lead = loops.sizes.size() - getShape(value).size();
  for (auto [dim, size] : llvm::enumerate(getShape(value)))
    access.dims.push_back(size == 1 ? LoopAccess::kUniform
                                    : lead + static_cast<int>(dim));
  return access;
}

LoopAccess accessInOrder(Value value, ArrayRef<int64_t> elsewhere) {
  LoopAccess access;
  access.value = value;
  access.dims = llvm::to_vector(llvm::seq<int>(getShape(value).size()));
  for (int64_t dim : elsewhere)
    access.dims[dim] = LoopAccess::kElsewhere;
  return access;
}

SmallVector<int64_t> getDimsOf(Operation *op) {
  if (auto dims = dyn_cast_if_present<DenseI64ArrayAttr>(op->getAttr("dims")))
    return SmallVector<int64_t>(dims.asArrayRef());
  if (auto dim = dyn_cast_if_present<IntegerAttr>(op->getAttr("dim")))
    return {dim.getInt()};
  return {};
}

std::optional<LoopOp> buildPieceLoops(Operation *op) {
  LoopOp loops = loopOver(op, op->getResult(0));
  for (Value operand : op->getOperands())
    loops.inputs.push_back(accessInOrder(operand, getDimsOf(op)));
  loops.outputs.push_back(accessInOrder(op->getResult(0)));
  return loops;
}

} // namespace tandem::spmd
