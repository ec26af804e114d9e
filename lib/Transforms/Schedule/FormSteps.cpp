//===- FormSteps.cpp - steps of the operators of each slot ----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Ahead.h"
#include "PlaceFetches.h"
#include "Roles.h"
#include "Slot.h"
#include "mlir/IR/IRMapping.h"
#include "tandem/Dialect/NN/Host.h"
#include "tandem/Dialect/SPMD/Ahead.h"
#include "tandem/Dialect/Sched/Host.h"
#include "tandem/Transforms/Schedule/Schedule.h"
#include "tandem/Transforms/StepPass.h"
#include <map>

namespace tandem {
#define GEN_PASS_DEF_FORMSTEPSPASS
#include "tandem/Transforms/Schedule/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using sched::StepOp;

namespace {
class FormStepsPass
    : public tandem::StepPass<tandem::impl::FormStepsPassBase<FormStepsPass>> {
public:
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<sched::SchedDialect>();
  }
  LogicalResult runOnStep(func::FuncOp step) override;

private:
  LogicalResult collect(Block &block);
  Value clonePosition(Operation *reader, Value value, IRMapping &made,
                      SmallVectorImpl<Operation *> &ops) const;
  void clonePositions();
  void eraseUnread();
  void findReaders();
  void fill(OpBuilder &builder, const Slot &slot, ArrayRef<Operation *> ops);
  void placeReturnedSources(Block &block);

  bool isInTurn(const Slot &slot) const {
    return slot.lane == Lane::Comm && slot.strand == 0 &&
           inTurn.contains(slot.stage);
  }

  std::map<Slot, SmallVector<Operation *>> bySlot;
  /// Sources, and operators of sources alone that cost no more than a load.
  llvm::DenseSet<Operation *> positions;
  /// What begins a step, since that waits for a copy.
  llvm::DenseSet<Operation *> readers;
  llvm::DenseSet<int64_t> inTurn;
};
} // namespace

LogicalResult FormStepsPass::collect(Block &block) {
  for (Operation &op : block.without_terminator()) {
    bool isCheap =
        op.hasTrait<nn::CostsALoad>() || op.hasTrait<nn::Rearrangement>();
    if (isSource(&op) ||
        (isCheap && llvm::all_of(op.getOperands(), [&](Value operand) {
           return positions.contains(operand.getDefiningOp());
         })))
      positions.insert(&op);
    std::optional<Slot> slot = getSlot(&op);
    if (slot)
      bySlot[*slot].push_back(&op);
    else if (!isSource(&op))
      return op.emitError() << "has no slot ('" << kSlotAttrName
                            << "': stage, strand, lane), expected one";
  }
  return success();
}

/// What `reader` reads for a value: of a position a clone, in `ops`.
Value FormStepsPass::clonePosition(Operation *reader, Value value,
                                   IRMapping &made,
                                   SmallVectorImpl<Operation *> &ops) const {
  Operation *op = value.getDefiningOp();
  if (made.contains(value) || !positions.contains(op) || isSource(op) ||
      getLoop(op) != getLoop(reader))
    return made.lookupOrDefault(value);
  for (Value operand : op->getOperands())
    clonePosition(reader, operand, made, ops);
  ops.push_back(OpBuilder(op).clone(*op, made));
  return made.lookup(value);
}

/// What is elementwise makes again, in its own slot, the positions that it
/// reads: its kernel computes them, and no step holds them for another one.
void FormStepsPass::clonePositions() {
  for (auto &[slot, ops] : bySlot) {
    IRMapping made;
    SmallVector<Operation *> all;
    for (Operation *op : ops) {
      for (OpOperand &operand : op->getOpOperands()) {
        Operation *read = operand.get().getDefiningOp();
        std::optional<Slot> before = read ? getSlot(read) : std::nullopt;
        if (op->hasTrait<nn::Broadcasting>() && before && *before < slot)
          operand.set(clonePosition(op, operand.get(), made, all));
      }
      all.push_back(op);
    }
    ops = std::move(all);
  }
}

/// Of positions.
void FormStepsPass::eraseUnread() {
  for (auto &[slot, ops] : llvm::reverse(bySlot))
    for (Operation *&op : llvm::reverse(ops))
      if (positions.contains(op) && op->use_empty()) {
        op->erase();
        op = nullptr;
      }
  for (auto &[slot, ops] : bySlot)
    llvm::erase(ops, nullptr);
}

/// A source that is a result is made again for it, in the last step.
void FormStepsPass::placeReturnedSources(Block &block) {
  Slot slot = bySlot.empty() ? Slot() : bySlot.rbegin()->first;
  slot.lane = Lane::Compute;
  Operation *ret = block.getTerminator();
  for (OpOperand &operand : ret->getOpOperands()) {
    Operation *source = operand.get().getDefiningOp();
    if (!source || !isSource(source) || getSlot(source))
      continue;
    Operation *copy = OpBuilder(ret).clone(*source);
    operand.set(copy->getResult(0));
    bySlot[slot].push_back(copy);
  }
}

/// Makes again, in `step`, the sources that its operators read.
static void cloneSources(StepOp step) {
  Block &body = step.getBody().front();
  IRMapping made;
  for (Operation &op : llvm::make_early_inc_range(body.without_terminator())) {
    for (OpOperand &operand : op.getOpOperands()) {
      Operation *source = operand.get().getDefiningOp();
      if (!source || !isSource(source) || source->getBlock() == &body)
        continue;
      if (!made.contains(operand.get()))
        OpBuilder(&op).clone(*source, made);
      operand.set(made.lookup(operand.get()));
    }
  }
}

/// Values of the body that something outside it reads.
static SmallVector<Value> getReadOutside(ArrayRef<Operation *> ops) {
  SmallVector<Value> values;
  llvm::DenseSet<Operation *> inside(ops.begin(), ops.end());
  for (Operation *op : ops)
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(),
                       [&](Operation *user) { return !inside.contains(user); }))
        values.push_back(result);
  return values;
}

/// A copy cuts a slot's computation. What is sent to the host waits for the
/// next library call, where kernels end anyway.
static SmallVector<Operation *> delaySends(ArrayRef<Operation *> ops) {
  SmallVector<Operation *> placed, sent;
  for (Operation *op : ops) {
    bool isRead = isa<nn::FromHostOp>(op) &&
                  llvm::is_contained(sent, op->getOperand(0).getDefiningOp());
    if (isa<nn::LibraryOpInterface>(op) || isRead)
      placed.append(std::exchange(sent, {}));
    (isa<nn::ToHostOp>(op) ? sent : placed).push_back(op);
  }
  placed.append(sent);
  return placed;
}

/// Finds the first readers of what comes back from the host: what is computed
/// in front of them does not wait for it. Copies come in their order.
void FormStepsPass::findReaders() {
  llvm::DenseMap<Operation *, size_t> copies; // from 1 on
  size_t numWaited = 0;
  for (auto &[slot, ops] : bySlot)
    for (Operation *op : ops) {
      size_t last = 0;
      for (Value operand : op->getOperands())
        last = std::max(last, copies.lookup(operand.getDefiningOp()));
      if (last > numWaited)
        readers.insert(op);
      numWaited = std::max(numWaited, last);
      if (nn::fetchesValue(op))
        copies.try_emplace(op, copies.size() + 1);
    }
}

/// Of a slot, of which so many operators run ahead: these stay in front.
static void delaySends(SmallVectorImpl<Operation *> &ops, size_t numAhead) {
  ArrayRef<Operation *> all(ops);
  SmallVector<Operation *> placed = delaySends(all.take_front(numAhead));
  placed.append(delaySends(all.drop_front(numAhead)));
  ops = std::move(placed);
}

/// What a slot of computation begins with that is one step: copies in one
/// direction, or none.
static size_t countAlike(ArrayRef<Operation *> ops) {
  auto isOther = [&](Operation *op) {
    bool isCopy = nn::isHostCopy(op) || nn::isHostCopy(ops.front());
    return isCopy && op->getName() != ops.front()->getName();
  };
  return llvm::find_if(ops, isOther) - ops.begin();
}

/// A comm step holds collectives or moves, not both, and one collective that
/// waits: it begins when its own operand is there. The first `numAhead`
/// operators of a slot of computation need none of its collectives.
static size_t getStepSize(const Slot &slot, ArrayRef<Operation *> ops,
                          size_t numAhead) {
  if (slot.lane == Lane::Compute)
    return countAlike(numAhead > 0 ? ops.take_front(numAhead) : ops);
  bool waits = isWaiting(ops.front());
  bool communicates = isCollective(ops.front());
  size_t size = 1;
  while (size < ops.size() && !waits && !isWaiting(ops[size]) &&
         isCollective(ops[size]) == communicates)
    ++size;
  return size;
}

/// What a step says from here on; what predictions count is left.
static void takeOrder(Operation *op) {
  Planned planned = getPlanned(op), counted;
  counted.seconds = planned.seconds;
  counted.latency = planned.latency;
  setPlanned(op, counted);
}

/// The queue of the operators that begin with `op`.
static sched::QueueAttr getQueue(Operation *op, Lane lane) {
  MLIRContext *context = op->getContext();
  if (nn::isHostCopy(op))
    return sched::getCopyQueue(context, isa<nn::FromHostOp>(op)
                                            ? sched::kFromHostQueue
                                            : sched::kToHostQueue);
  auto role = lane == Lane::Compute ? sched::QueueRole::Compute
                                    : sched::QueueRole::Communication;
  return sched::QueueAttr::get(context, role, 0);
}

/// From here on a copy is one of `sched`.
static void convertCopy(Operation *op) {
  OpBuilder builder(op);
  Value value = op->getOperand(0);
  Operation *copy = isa<nn::FromHostOp>(op)
                        ? sched::FromHostOp::create(builder, op->getLoc(),
                                                    value.getType(), value)
                              .getOperation()
                        : sched::ToHostOp::create(builder, op->getLoc(),
                                                  value.getType(), value);
  setPlanned(copy, getPlanned(op));
  setLoopOf(copy, op);
  op->replaceAllUsesWith(copy);
  op->erase();
}

void FormStepsPass::fill(OpBuilder &builder, const Slot &slot,
                         ArrayRef<Operation *> ops) {
  SmallVector<Value> values = getReadOutside(ops);
  auto step = StepOp::create(
      builder, ops.front()->getLoc(), ValueRange(values).getTypes(),
      sched::EventType::get(builder.getContext()),
      getQueue(ops.front(), slot.lane), slot.stage, slot.strand, ValueRange());
  setLoopOf(step, ops.front());
  if (isInTurn(slot))
    editPlanned(step, [&](Planned &planned) { planned.inTurn = {slot.stage}; });
  Block *body = builder.createBlock(&step.getBody());
  auto yield = sched::YieldOp::create(builder, step.getLoc(), values);
  for (Operation *op : ops) {
    op->removeAttr(kSlotAttrName);
    takeOrder(op);
    op->moveBefore(yield);
  }
  for (auto [value, result] : llvm::zip_equal(values, step.getValues()))
    value.replaceUsesWithIf(result, [&](OpOperand &use) {
      return use.getOwner()->getBlock() != body;
    });
  cloneSources(step);
  for (Operation *op : ops)
    if (nn::isHostCopy(op))
      convertCopy(op);
  builder.setInsertionPointAfter(step);
}

LogicalResult FormStepsPass::runOnStep(func::FuncOp step) {
  bySlot.clear();
  positions.clear();
  readers.clear();
  inTurn.clear();
  inTurn.insert_range(getPlanned(step).inTurn);
  step->removeAttr(kPlanAttrName);
  llvm::DenseSet<int64_t> ahead;
  ahead.insert_range(getAhead(step));
  setAhead(step, {});
  Block &block = step.getBody().front();
  if (failed(collect(block)))
    return failure();
  placeReturnedSources(block);
  clonePositions();
  eraseUnread();
  OpBuilder builder(block.getTerminator());
  std::map<Slot, size_t> numAhead;
  for (auto &[slot, ops] : bySlot)
    if (slot.lane == Lane::Compute && ahead.contains(slot.stage))
      numAhead[slot] = moveAhead(slot, ops);
  for (auto &[slot, ops] : bySlot) {
    if (llvm::none_of(ops, nn::isHostCopy))
      continue;
    auto found = numAhead.find(slot);
    size_t ahead = found == numAhead.end() ? 0 : found->second;
    delaySends(ops, ahead);
    if (ahead == 0)
      placeFetches(ops, sched::getDevice(step).fusion);
  }
  findReaders();
  auto isReader = [&](Operation *op) { return readers.contains(op); };
  for (auto &[slot, ops] : bySlot) {
    size_t ahead = numAhead[slot];
    for (ArrayRef<Operation *> rest(ops); !rest.empty();) {
      ArrayRef<Operation *> behind =
          rest.take_front(getStepSize(slot, rest, ahead)).drop_front();
      size_t size = 1 + (llvm::find_if(behind, isReader) - behind.begin());
      fill(builder, slot, rest.take_front(size));
      rest = rest.drop_front(size);
      ahead -= std::min(ahead, size);
    }
  }
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isSource(&op) && op.use_empty())
      op.erase();
  return success();
}
