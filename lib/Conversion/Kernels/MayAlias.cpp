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

/// Whether one number is made of all elements.
static bool reducesAll(Operation *op) {
  auto looped = dyn_cast<spmd::LoopOpInterface>(op);
  auto loops = looped ? looped.getLoops() : std::nullopt;
  return loops && op->getNumOperands() == 1 && op->getNumResults() == 1 &&
         getSize(op->getResult(0)) == 1 && !loops->inputs.empty() &&
         llvm::all_of(loops->inputs.front().dims,
                      [](int loop) { return loop >= 0; });
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

/// Whether all that is computed of `from` other than by `to` is computed for
/// `to`: then nothing of it is computed again once `to` is there.
static bool isReadFor(Value from, Value to,
                      const llvm::DenseSet<Value> &dependences) {
  SmallVector<Value> work = {from};
  while (!work.empty())
    for (Operation *user : work.pop_back_val().getUsers()) {
      if (user->getNumResults() == 0 ||
          !dependences.contains(user->getResult(0)))
        return false;
      if (user->getResult(0) != to)
        work.push_back(user->getResult(0));
    }
  return true;
}

/// Whether one operand may decide what the operator gives, whatever the others
/// are: then the code may give it without them.
static bool mayIgnoreOperands(Operation *op) {
  bool isInteger = getElementTypeOrSelf(op->getResult(0)).isInteger();
  return isa<nn::LogicalAndOp, nn::LogicalOrOp>(op) ||
         (isInteger && isa<nn::MulOp, nn::RemainderOp>(op));
}

/// Whether `to` cannot be stored before `from` is loaded. A selection of
/// something else can: where its condition is one for all elements, LLVM makes
/// a loop of its own of it, or one call that fills the buffer.
static bool needs(Value to, Value from, llvm::DenseMap<Value, bool> &known) {
  Operation *op = to.getDefiningOp();
  if (to == from || !op)
    return to == from;
  if (auto found = known.find(to); found != known.end())
    return found->second;
  auto isNeeded = [&](Value operand) { return needs(operand, from, known); };
  bool found;
  if (auto select = dyn_cast<nn::SelectOp>(op))
    found = isNeeded(select.getCondition()) ||
            llvm::all_of(llvm::drop_begin(op->getOperands()), isNeeded);
  else if (mayIgnoreOperands(op))
    found = llvm::all_of(op->getOperands(), isNeeded);
  else
    found = llvm::any_of(op->getOperands(), isNeeded);
  return known[to] = found;
}

/// Whether the terminator and what `to` does not depend on read nothing of
/// `from` themselves.
static bool isOnlyLoadedFor(Value from,
                            const llvm::DenseSet<Value> &dependences) {
  return llvm::all_of(from.getUsers(), [&](Operation *user) {
    return user->getNumResults() > 0 &&
           dependences.contains(user->getResult(0));
  });
}

bool tandem::mayAlias(func::FuncOp kernel, unsigned input, unsigned output) {
  Block &body = kernel.front();
  Value from = body.getArgument(input);
  Value to = body.getTerminator()->getOperand(output);
  if (getElementTypeOrSelf(from) != getElementTypeOrSelf(to) ||
      getSize(from) != getSize(to) || isa<BlockArgument>(to))
    return false;
  if (auto sum = getRowSum(to.getDefiningOp()))
    return sum->base == from && from.hasOneUse();
  // All work is loops over elements of this size: an element is read and
  // written in the same round, or read before, for a number that all of them
  // need.
  int64_t size = getSize(from);
  bool reduces = false;
  for (Operation &op : body.without_terminator()) {
    bool isNumber = reducesAll(&op);
    if (!isNumber && !isElementwise(&op))
      return false;
    int64_t extent = getSize(isNumber ? op.getOperand(0) : op.getResult(0));
    if (extent != size && extent != 1)
      return false;
    reduces |= isNumber && extent > 1;
  }
  // Loads may move below stores to other buffers, but not below the store of a
  // value that depends on them.
  llvm::DenseSet<Value> dependences = getDependences(to);
  llvm::DenseMap<Value, bool> known;
  if (reduces || !needs(to, from, known))
    return isReadFor(from, to, dependences);
  return isOnlyLoadedFor(from, dependences);
}
