//===- MayAlias.cpp - results in place of arguments -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Analysis/SliceAnalysis.h"
#include "tandem/Analysis/Lookups.h"
#include "tandem/Conversion/Kernels/Kernels.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/SPMD.h"

using namespace mlir;
using namespace tandem;

/// Whether every element of the result needs at most the element of the same
/// row-major index of an operand of `shape`'s size.
static bool isElementwise(Operation *op) {
  return op->hasTrait<nn::Broadcasting>() || spmd::isSource(op) ||
         isa<nn::ReshapeOp, spmd::KeepFirstOp>(op);
}

static int64_t getSize(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

/// Everything that `value` depends on, itself included.
static llvm::DenseSet<Value> getDependences(Value value) {
  llvm::DenseSet<Value> seen = {value};
  SmallVector<Value> work = {value};
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (!op)
      continue;
    for (Value operand : op->getOperands())
      if (seen.insert(operand).second)
        work.push_back(operand);
  }
  return seen;
}

bool tandem::mayAlias(func::FuncOp kernel, unsigned input, unsigned output) {
  Block &body = kernel.front();
  Value from = body.getArgument(input);
  Value to = body.getTerminator()->getOperand(output);
  if (from.getType() != to.getType() || isa<BlockArgument>(to))
    return false;
  if (auto sum = getRowSum(to.getDefiningOp()))
    return sum->base == from && from.hasOneUse();
  // All work is one loop over elements of this size: then an element is read
  // and written in the same round.
  int64_t size = getSize(from);
  for (Operation &op : body.without_terminator()) {
    if (!isElementwise(&op))
      return false;
    int64_t extent = getSize(op.getResult(0));
    if (extent != size && extent != 1)
      return false;
  }
  // Loads may move below stores to other buffers, but not below the store of a
  // value that depends on them.
  llvm::DenseSet<Value> dependences = getDependences(to);
  for (OpOperand &use : from.getUses()) {
    Operation *user = use.getOwner();
    if (user == body.getTerminator() ||
        !dependences.contains(user->getResult(0)))
      return false;
  }
  // A scalar argument is read in every round.
  return size > 1;
}
