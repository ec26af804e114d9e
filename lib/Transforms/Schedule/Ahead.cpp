//===- Ahead.cpp - recomputation beside collectives of its stage ----------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Ahead.h"
#include "tandem/Analysis/Loops.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/Ahead.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include <map>
#include <set>

using namespace mlir;
using namespace tandem;
using spmd::isSource;

static bool isOfStep(Value value) {
  Operation *maker = value.getDefiningOp();
  return maker && !isSource(maker);
}

/// Positions of a mask and views of parameters, say, need no mark.
static bool mayBeAhead(Operation *op) {
  return nn::isAgain(op) || llvm::none_of(op->getOperands(), isOfStep);
}

//===----------------------------------------------------------------------===//
// To another stage
//===----------------------------------------------------------------------===//

namespace {
class StageMover {
public:
  StageMover(func::FuncOp step, Slots &slots)
      : step(step), slots(slots), segments(getSegments(step.front())) {
    stages.insert_range(spmd::getAhead(step));
  }
  void run();

private:
  void findCollectives();
  std::optional<int64_t> getTarget(Operation *op) const;
  bool isThere(Value value, int64_t stage) const;
  void move();
  void moveBack();

  func::FuncOp step;
  Slots &slots;
  llvm::DenseMap<Operation *, int64_t> segments;
  llvm::DenseSet<int64_t> stages;
  /// Stages with collectives, by segment.
  std::map<int64_t, std::set<int64_t>> collectives;
  llvm::DenseSet<Operation *> ahead;
  /// Where it came from, and what has moved back.
  llvm::MapVector<Operation *, Slot> moved;
};
} // namespace

void StageMover::findCollectives() {
  for (auto &[op, slot] : slots)
    if (slot.lane == Lane::Comm)
      collectives[segments.lookup(op)].insert(slot.stage);
}

/// The last stage with collectives up to that of `op`.
std::optional<int64_t> StageMover::getTarget(Operation *op) const {
  auto own = slots.find(op);
  auto of = collectives.find(segments.lookup(op));
  if (!mayBeAhead(op) || own == slots.end() || of == collectives.end() ||
      own->second.lane != Lane::Compute || !stages.contains(own->second.stage))
    return std::nullopt;
  auto behind = of->second.upper_bound(own->second.stage);
  return behind == of->second.begin() ? std::nullopt
                                      : std::optional(*std::prev(behind));
}

/// Whether the value exists when `stage` begins, or is made ahead.
bool StageMover::isThere(Value value, int64_t stage) const {
  if (!isOfStep(value))
    return true;
  Operation *maker = value.getDefiningOp();
  if (auto it = slots.find(maker); it != slots.end())
    return it->second.stage < stage ||
           (it->second.stage == stage && ahead.contains(maker));
  return llvm::all_of(maker->getOperands(),
                      [&](Value operand) { return isThere(operand, stage); });
}

void StageMover::move() {
  for (Operation &op : step.front().without_terminator())
    if (std::optional<int64_t> stage = getTarget(&op);
        stage && llvm::all_of(op.getOperands(), [&](Value operand) {
          return isThere(operand, *stage);
        })) {
      ahead.insert(&op);
      moved[&op] = slots[&op];
      slots[&op] = {*stage, 0, Lane::Compute};
    }
}

/// What only elements beside it read stays in their kernel, and what nothing
/// made again reads where it is.
void StageMover::moveBack() {
  for (auto &[op, from] : llvm::reverse(moved)) {
    bool isBeside = llvm::all_of(op->getUsers(), [&](Operation *user) {
      auto it = slots.find(user);
      return it == slots.end() ||
             (it->second.stage == from.stage && !ahead.contains(user));
    });
    if (nn::isAgain(op) ? isBeside && op->hasTrait<nn::Broadcasting>()
                        : llvm::none_of(op->getUsers(), [&](Operation *user) {
                            return ahead.contains(user);
                          })) {
      ahead.erase(op);
      slots[op] = from;
    }
  }
}

void StageMover::run() {
  findCollectives();
  move();
  moveBack();
  std::set<int64_t> targets;
  for (Operation *op : ahead)
    targets.insert(slots.lookup(op).stage);
  spmd::setAhead(step, llvm::to_vector(targets));
}

void tandem::runAhead(func::FuncOp step, Slots &slots) {
  if (!spmd::getAhead(step).empty())
    StageMover(step, slots).run();
}

//===----------------------------------------------------------------------===//
// Within a stage
//===----------------------------------------------------------------------===//

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
  bool isThere(Value value) const;
  bool isReadElsewhere(Operation *op) const;

  Slot first;
  ArrayRef<Operation *> ops;
  llvm::DenseSet<Operation *> here, ahead;
};
} // namespace

/// Whether the value exists when the stage begins, or is made ahead.
bool Mover::isThere(Value value) const {
  Operation *maker = value.getDefiningOp();
  if (!isOfStep(value) || isAhead(maker))
    return true;
  std::optional<Slot> made = getSlot(maker);
  return !here.contains(maker) && made && *made < first;
}

bool Mover::isReadElsewhere(Operation *op) const {
  return llvm::any_of(op->getUsers(), [&](Operation *user) {
    return isAhead(user) || !here.contains(user);
  });
}

void Mover::find() {
  auto isReady = [&](Value value) { return isThere(value); };
  for (Operation *op : ops)
    if (mayBeAhead(op) && llvm::all_of(op->getOperands(), isReady))
      ahead.insert(op);
  for (Operation *op : llvm::reverse(ops))
    if ((op->hasTrait<nn::Broadcasting>() || !nn::isAgain(op)) &&
        !isReadElsewhere(op))
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
