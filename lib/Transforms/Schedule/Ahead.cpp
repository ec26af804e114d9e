//===- Ahead.cpp - recomputation beside collectives of its stage ----------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Ahead.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/SPMD.h"

using namespace mlir;
using namespace tandem;
using spmd::isSource;

static bool isOfStep(Value value) {
  Operation *maker = value.getDefiningOp();
  return maker && !isSource(maker);
}

namespace {
class Mover {
public:
  Mover(const Slot &slot, ArrayRef<Operation *> ops)
      : first{slot.stage, 0, Lane::Early}, ops(ops) {
    here.insert_range(ops);
  }
  void find();
  bool isAhead(Operation *op) const { return ahead.contains(op); }
  size_t getCount() const { return ahead.size(); }

private:
  bool isFree(Operation *op) const;
  bool isThere(Value value) const;
  bool staysWithReaders(Operation *op) const;

  Slot first;
  ArrayRef<Operation *> ops;
  llvm::DenseSet<Operation *> here, ahead, free;
};
} // namespace

/// Whether it reads nothing of other slots: positions of a mask and views of
/// parameters, say, need no mark.
bool Mover::isFree(Operation *op) const {
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    return !isOfStep(operand) || free.contains(operand.getDefiningOp());
  });
}

/// Whether the value exists when the stage begins, or is made ahead.
bool Mover::isThere(Value value) const {
  Operation *maker = value.getDefiningOp();
  if (!isOfStep(value) || isAhead(maker))
    return true;
  std::optional<Slot> made = getSlot(maker);
  return !here.contains(maker) && made && *made < first;
}

/// What only elements beside it read stays in their kernel, and what is not
/// made again where nothing ahead reads it.
bool Mover::staysWithReaders(Operation *op) const {
  bool isElements = op->hasTrait<nn::Broadcasting>() && nn::isAgain(op);
  return (isElements || !nn::isAgain(op)) &&
         llvm::all_of(op->getUsers(), [&](Operation *user) {
           return here.contains(user) && !isAhead(user) &&
                  (!isElements || user->hasTrait<nn::Broadcasting>());
         });
}

void Mover::find() {
  auto isReady = [&](Value value) { return isThere(value); };
  for (Operation *op : ops) {
    if (isFree(op))
      free.insert(op);
    if ((nn::isAgain(op) || free.contains(op)) &&
        llvm::all_of(op->getOperands(), isReady))
      ahead.insert(op);
  }
  for (Operation *op : llvm::reverse(ops))
    if (staysWithReaders(op))
      ahead.erase(op);
}

size_t tandem::moveAhead(const Slot &slot, SmallVectorImpl<Operation *> &ops) {
  Mover mover(slot, ops);
  mover.find();
  llvm::stable_sort(ops, [&](Operation *a, Operation *b) {
    return mover.isAhead(a) && !mover.isAhead(b);
  });
  return mover.getCount();
}
