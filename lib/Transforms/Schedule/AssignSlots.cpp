//===- AssignSlots.cpp - a slot for each operator -------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Roles.h"
#include "Slot.h"
#include "tandem/Analysis/Bytes.h"
#include "tandem/Analysis/Loops.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Support/PieceLimit.h"
#include "tandem/Transforms/Schedule/Schedule.h"
#include "tandem/Transforms/StepPass.h"
#include <map>

namespace tandem {
#define GEN_PASS_DEF_ASSIGNSLOTSPASS
#include "tandem/Transforms/Schedule/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {
/// Walks the operators in the order of the text, which is the order of eager
/// execution: memory is alive as long as there, not longer. Stages never go
/// back; a new one begins where a collective's result is first needed, and
/// where enough was gathered or enough gradients are ready.
class SlotAssigner {
public:
  /// For operators of one segment, in the order of the text.
  SlotAssigner(func::FuncOp step, ArrayRef<Operation *> ops, unsigned pieces);
  /// Numbers stages from `first` on; gives the number behind the last one.
  int64_t run(int64_t first);

private:
  int64_t getStage(Operation *op, int64_t strand, int64_t least) const;
  void place(Operation *op, int64_t stage, int64_t strand, Lane lane);
  void begin(int64_t stage);
  void assign(Operation *op);
  void assignCollective(Operation *op);
  void assignComputation(Operation *op);
  SmallVector<Operation *> getAhead(Operation *op) const;
  int64_t getLeastStage(Operation *op, Operation *reader, int64_t strand) const;
  void placeAhead(Operation *op, Operation *reader, int64_t stage,
                  int64_t strand);
  int64_t getArrival(Operation *op) const;
  void findArrivals();
  void assignLate();
  void placeReturned();
  void limitPieces(unsigned pieces);

  Block &block;
  ArrayRef<Operation *> ops;
  Operation *loss;
  Roles roles;
  int64_t last = 0;
  int64_t current = 0;
  /// Bytes gathered ahead and bytes of gradients in the current stage, and the
  /// bounds that begin a new one.
  int64_t gathered = 0, ready = 0;
  PieceLimit gatheredLimit, readyLimit;
  llvm::DenseMap<Operation *, Slot> slots;
  /// Stage of the last waiting collective that a late operator needs, or, if
  /// later, that its first reader needs; a late collective that reads a
  /// computation arrives a stage behind it.
  llvm::DenseMap<Operation *, int64_t> arrivals;
};

struct AssignSlotsPass
    : tandem::StepPass<tandem::impl::AssignSlotsPassBase<AssignSlotsPass>> {
  using StepPass::StepPass;
  LogicalResult runOnStep(func::FuncOp step) override {
    if (isPlanned(step))
      return success();
    Block &block = step.getBody().front();
    auto segmentOf = getSegments(block);
    std::map<int64_t, SmallVector<Operation *>> segments;
    for (Operation &op : block.without_terminator())
      segments[segmentOf.at(&op)].push_back(&op);
    int64_t stage = 0;
    for (auto &[segment, ops] : segments)
      stage =
          SlotAssigner(step, ops, std::max(1u, pieces.getValue())).run(stage);
    return success();
  }
};
} // namespace

SlotAssigner::SlotAssigner(func::FuncOp step, ArrayRef<Operation *> ops,
                           unsigned pieces)
    : block(step.getBody().front()), ops(ops), loss(findLoss(step)),
      roles(ops) {
  for (Operation &op : block)
    last = std::max(last, getStrand(&op).value_or(0));
  limitPieces(pieces);
}

void SlotAssigner::limitPieces(unsigned pieces) {
  std::map<std::optional<nn::PassKind>, int64_t> byPass;
  int64_t gradients = 0, most = 0;
  for (Operation *op : ops) {
    if (roles.ahead.contains(op) && isCollective(op))
      byPass[nn::getPass(op)] += getBytes(op->getResult(0).getType());
    if (roles.waiting.contains(op))
      gradients += getBytes(op->getOperand(0).getType());
  }
  for (auto &it : byPass)
    most = std::max(most, it.second);
  gatheredLimit.set(most, pieces);
  readyLimit.set(gradients, pieces);
}

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

void SlotAssigner::place(Operation *op, int64_t stage, int64_t strand,
                         Lane lane) {
  slots[op] = {stage, strand, lane};
}

void SlotAssigner::begin(int64_t stage) {
  if (stage <= current)
    return;
  current = stage;
  if (gathered > 0)
    gatheredLimit.grow();
  if (ready > 0)
    readyLimit.grow();
  gathered = ready = 0;
}

/// The first stage from `least` on in which `op` can run for `strand`. What a
/// collective needs is computed a stage before; everything else in an earlier
/// slot, or in this one.
int64_t SlotAssigner::getStage(Operation *op, int64_t strand,
                               int64_t least) const {
  int64_t stage = least;
  for (Value operand : op->getOperands()) {
    auto it = slots.find(operand.getDefiningOp());
    if (it == slots.end())
      continue;
    const Slot &slot = it->second;
    bool sameSlot = slot.strand <= strand &&
                    (slot.lane != Lane::Compute || !isCollective(op));
    stage = std::max(stage, sameSlot ? slot.stage : slot.stage + 1);
  }
  return stage;
}

//===----------------------------------------------------------------------===//
// Collectives on arguments
//===----------------------------------------------------------------------===//

/// Operators ahead that `op` reads and that have no slot yet.
SmallVector<Operation *> SlotAssigner::getAhead(Operation *op) const {
  SmallVector<Operation *> ahead;
  for (Value operand : op->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    if (producer && roles.ahead.contains(producer) &&
        !slots.contains(producer) && !llvm::is_contained(ahead, producer))
      ahead.push_back(producer);
  }
  return ahead;
}

/// The first stage in which `op`, which is ahead, can be read by `reader` for
/// `strand`: what a collective reads is computed a stage before it.
int64_t SlotAssigner::getLeastStage(Operation *op, Operation *reader,
                                    int64_t strand) const {
  int64_t own = getStrand(op).value_or(0);
  int64_t stage = getStage(op, own, 0);
  for (Operation *producer : getAhead(op))
    stage = std::max(stage, getLeastStage(producer, op, own));
  bool isBefore = isCollective(reader) && !isCollective(op);
  return stage + (isBefore || own > strand);
}

/// Places `op` for a reader in slot (`stage`, `strand`).
void SlotAssigner::placeAhead(Operation *op, Operation *reader, int64_t stage,
                              int64_t strand) {
  int64_t own = getStrand(op).value_or(0);
  bool communicates = isCollective(op);
  if (isCollective(reader) && !communicates) {
    // What is gathered beside the stage before is prepared by the end of the
    // one before that.
    int64_t early = stage - 2;
    stage = std::max(early, getLeastStage(op, reader, strand) - 1);
    if (stage == early && !getStrand(op))
      own = last;
  } else if (own > strand) {
    --stage;
  }
  for (Operation *producer : getAhead(op))
    placeAhead(producer, op, stage, own);
  place(op, stage, own, communicates ? Lane::Comm : Lane::Compute);
  if (communicates)
    gathered += getBytes(op->getResult(0).getType());
}

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

/// What waits goes behind the collectives of the next stage, which computation
/// needs sooner, and no further: its operand is held as long as it waits.
void SlotAssigner::assignCollective(Operation *op) {
  bool waits = roles.waiting.contains(op);
  int64_t strand = waits ? last : getStrand(op).value_or(0);
  int64_t stage = getStage(op, strand, current);
  SmallVector<Operation *> ahead = getAhead(op);
  for (Operation *producer : ahead)
    stage = std::max(stage, getLeastStage(producer, op, strand));
  for (Operation *producer : ahead)
    placeAhead(producer, op, stage, strand);
  if (waits)
    place(op, stage + 1, strand, Lane::Waiting);
  else
    place(op, stage, strand, Lane::Comm);
  if (waits && op != loss)
    ready += getBytes(op->getOperand(0).getType());
}

void SlotAssigner::assignComputation(Operation *op) {
  SmallVector<Operation *> ahead = getAhead(op);
  std::optional<int64_t> own = getStrand(op);
  int64_t strand = own.value_or(last), bytes = 0, least = current;
  for (Operation *producer : ahead) {
    bytes += getBytes(producer->getResult(0).getType());
    least = std::max(least, getLeastStage(producer, op, strand));
  }
  bool full =
      gathered > 0 && bytes > 0 && gathered + bytes > gatheredLimit.get();
  if (full || ready >= readyLimit.get())
    least = std::max(least, current + 1);
  int64_t stage = getStage(op, strand, least);
  begin(stage);
  for (Operation *producer : ahead)
    placeAhead(producer, op, stage, strand);
  place(op, stage, own ? *own : getSharedStrand(op, stage, slots),
        Lane::Compute);
}

void SlotAssigner::assign(Operation *op) {
  if (isCollective(op))
    assignCollective(op);
  else
    assignComputation(op);
}

//===----------------------------------------------------------------------===//
// Late operators
//===----------------------------------------------------------------------===//

/// What a collective reads is computed a stage before it.
static bool isStageBehind(Operation *op, Operation *needed) {
  return isCollective(op) && !isCollective(needed);
}

int64_t SlotAssigner::getArrival(Operation *op) const {
  int64_t arrival = -1;
  auto include = [&](Operation *needed, int64_t behind) {
    int64_t stage = -1;
    if (auto it = arrivals.find(needed); it != arrivals.end())
      stage = it->second;
    else if (roles.waiting.contains(needed))
      stage = slots.lookup(needed).stage;
    arrival = std::max(arrival, stage + behind);
  };
  // Nothing is updated before the loss is known.
  if (loss)
    include(loss, 0);
  for (Value operand : op->getOperands())
    if (Operation *needed = operand.getDefiningOp())
      include(needed, isStageBehind(op, needed));
  return arrival;
}

void SlotAssigner::findArrivals() {
  for (Operation *op : ops)
    if (roles.late.contains(op))
      arrivals[op] = getArrival(op);
  // An update is one kernel: what does not need the gradient (weight decay)
  // stays with what does. The loss itself is not put off.
  for (Operation *op : llvm::reverse(ops)) {
    if (!arrivals.contains(op) || !isUpdate(op))
      continue;
    std::optional<int64_t> first;
    for (Operation *user : op->getUsers())
      if (auto it = arrivals.find(user); it != arrivals.end())
        first = std::min(first.value_or(INT64_MAX),
                         it->second - isStageBehind(user, op));
    arrivals[op] = std::max(arrivals[op], first.value_or(0));
  }
}

void SlotAssigner::assignLate() {
  findArrivals();
  std::map<int64_t, SmallVector<Operation *>> byArrival;
  for (Operation *op : ops)
    if (roles.late.contains(op))
      byArrival[arrivals[op]].push_back(op);
  int64_t final = current;
  for (auto &[op, slot] : slots)
    final = std::max(final, slot.stage);
  begin(final);
  for (auto &[arrival, late] : byArrival) {
    begin(current + 1);
    for (Operation *op : late)
      assign(op);
  }
}

/// What is ahead of nothing but a result, or of nothing at all.
void SlotAssigner::placeReturned() {
  Operation *ret = block.getTerminator();
  for (Operation *op : llvm::reverse(ops))
    if (roles.ahead.contains(op) && !slots.contains(op))
      placeAhead(op, ret, std::max(current, getLeastStage(op, ret, last)),
                 last);
}

int64_t SlotAssigner::run(int64_t first) {
  for (Operation *op : ops)
    if (!isSource(op) && !roles.late.contains(op) && !roles.ahead.contains(op))
      assign(op);
  assignLate();
  placeReturned();
  int64_t end = first;
  for (auto &[op, slot] : slots) {
    slot.stage += first;
    setSlot(op, slot);
    end = std::max(end, slot.stage + 1);
  }
  return end;
}
