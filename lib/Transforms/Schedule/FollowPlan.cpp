//===- FollowPlan.cpp - the slots of a plan's stages ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Roles.h"
#include "Slot.h"
#include "tandem/Analysis/Loops.h"
#include "tandem/Dialect/SPMD/Ahead.h"
#include "tandem/Transforms/Schedule/Schedule.h"
#include "tandem/Transforms/StepPass.h"
#include <map>

namespace tandem {
#define GEN_PASS_DEF_FOLLOWPLANPASS
#include "tandem/Transforms/Schedule/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;

namespace {
/// What the slots of a plan follow from: stages on operators, and for each
/// stage whether it runs in one strand (Cost/Cost.h, *Strands*).
class PlanFollower {
public:
  explicit PlanFollower(func::FuncOp step);
  LogicalResult run();

private:
  void findStrands();
  void hurryLoss();
  bool isOneStrand(int64_t stage) const { return !hasStrands.contains(stage); }
  bool isSerial(int64_t stage, int64_t strand) const;
  int64_t getStrandOf(Operation *op, int64_t stage) const;
  std::optional<Slot> getPlanned(Operation *op) const;
  std::optional<Slot> getSource(Value value) const;
  bool isReady(const Slot &source, int64_t stage, int64_t strand) const;
  Slot getWaiting(Operation *op, const Planned &planned) const;
  std::optional<Slot> getFirstReader(Operation *op, bool &isComm) const;
  void placeUnplanned();
  void placeCarried();
  void separateSegments();
  LogicalResult verify(Operation *op) const;

  func::FuncOp step;
  Block &block;
  /// Stages whose strands run one after the other.
  llvm::DenseSet<int64_t> hasStrands;
  int64_t numStrands = 1;
  llvm::DenseMap<Operation *, Slot> slots;
};

struct FollowPlanPass
    : tandem::StepPass<tandem::impl::FollowPlanPassBase<FollowPlanPass>> {
  LogicalResult runOnStep(func::FuncOp step) override {
    return isPlanned(step) ? PlanFollower(step).run() : success();
  }
};
} // namespace

/// Plans do not know the collectives between the points of a pipeline, which
/// stand between stages: what has one is given slots as without a plan.
bool tandem::isPlanned(func::FuncOp step) {
  bool isPlanned = false;
  for (Operation &op : step.getBody().front()) {
    Planned planned = spmd::getPlanned(&op);
    if (isCollective(&op) && !planned.stage && !planned.pieces)
      return false;
    isPlanned |= planned.stage.has_value();
  }
  return isPlanned;
}

/// Whether `op` is what a change of form does on a device.
static bool isLocalChange(Operation *op) {
  return spmd::isPartOfChange(op) && isMove(op);
}

PlanFollower::PlanFollower(func::FuncOp step)
    : step(step), block(step.getBody().front()) {
  for (Operation &op : block)
    numStrands = std::max(numStrands, getStrand(&op).value_or(0) + 1);
}

/// A stage has strands if something of it is there once per strand, and none of
/// its changes brings them together.
void PlanFollower::findStrands() {
  llvm::DenseSet<int64_t> joined;
  for (Operation &op : block.without_terminator()) {
    Planned planned = spmd::getPlanned(&op);
    if (!planned.stage)
      continue;
    if (planned.joins)
      joined.insert(*planned.stage);
    else if (getStrand(&op))
      hasStrands.insert(*planned.stage);
  }
  for (int64_t stage : joined)
    hasStrands.erase(stage);
}

/// Nothing is updated before the loss is known, so its collectives are in the
/// stage of the first update at the latest.
void PlanFollower::hurryLoss() {
  std::optional<int64_t> first;
  for (Operation &op : block.without_terminator())
    if (std::optional<int64_t> stage = getPlannedStage(&op);
        stage && isUpdate(&op) && !isCollective(&op) && !isLocalChange(&op))
      first = std::min(first.value_or(*stage), *stage);
  for (Operation *op = findLoss(step); op && first;
       op = op->getOperand(0).getDefiningOp()) {
    std::optional<int64_t> stage = getPlannedStage(op);
    if (!(isCollective(op) || isLocalChange(op)) || !stage || *stage <= *first)
      return;
    setPlannedStage(op, *first);
  }
}

/// Whether the collectives of a slot follow the computation of the slot before,
/// so that what waits goes before them.
bool PlanFollower::isSerial(int64_t stage, int64_t strand) const {
  return isOneStrand(stage) ||
         (strand == 0 && stage > 0 && isOneStrand(stage - 1));
}

/// What strands share, like the sum of a gradient, has one of them.
int64_t PlanFollower::getStrandOf(Operation *op, int64_t stage) const {
  if (isOneStrand(stage))
    return 0;
  if (std::optional<int64_t> strand = getStrand(op))
    return *strand;
  return getSharedStrand(op, stage, slots);
}

/// The last slot that makes something of `value`, behind moves.
std::optional<Slot> PlanFollower::getSource(Value value) const {
  Operation *producer = value.getDefiningOp();
  if (!producer || !isLocalChange(producer)) {
    auto it = slots.find(producer);
    return it == slots.end() ? std::nullopt : std::optional(it->second);
  }
  std::optional<Slot> last;
  for (Value operand : producer->getOperands())
    if (std::optional<Slot> source = getSource(operand))
      last = std::max(last.value_or(*source), *source);
  return last;
}

/// Whether what `source` makes is there when the slot of `stage` and `strand`
/// begins, in which the step before it is computed; or, of a change of several
/// collectives, whether the one before is sent there, but early.
bool PlanFollower::isReady(const Slot &source, int64_t stage,
                           int64_t strand) const {
  if (source.lane != Lane::Compute)
    return !(Slot{stage, strand, Lane::Early} < source);
  std::pair<int64_t, int64_t> before(stage, strand - 1);
  if (strand == 0)
    before = {stage - 1, isOneStrand(stage - 1) ? 0 : numStrands - 1};
  return std::pair(source.stage, source.strand) < before;
}

/// The slot of a waiting piece; where the plan names none, that behind its
/// operand's. What the computation beside a serial slot makes goes behind the
/// slot's own collectives, which wait for that computation as well.
Slot PlanFollower::getWaiting(Operation *op, const Planned &planned) const {
  std::optional<Slot> source = getSource(op->getOperand(0));
  ArrayRef<Piece> pieces = planned.pieces.getPieces();
  if (pieces.empty())
    return {source ? source->stage + 1 : planned.stage.value_or(0), 0,
            Lane::Waiting};
  int64_t stage = pieces[0].stage,
          strand = isOneStrand(stage) ? 0 : pieces[0].strand;
  bool isEarly =
      isSerial(stage, strand) && (!source || isReady(*source, stage, strand));
  return {stage, strand, isEarly ? Lane::Early : Lane::Waiting};
}

std::optional<Slot> PlanFollower::getPlanned(Operation *op) const {
  Planned planned = spmd::getPlanned(op);
  if (planned.pieces)
    return getWaiting(op, planned);
  if (!planned.stage)
    return std::nullopt;
  return Slot{*planned.stage, getStrandOf(op, *planned.stage),
              isCollective(op) ? Lane::Comm : Lane::Compute};
}

/// The first slot that reads `op`, and whether it is a step of the comm queue.
std::optional<Slot> PlanFollower::getFirstReader(Operation *op,
                                                 bool &isComm) const {
  std::optional<Slot> first;
  for (Operation *user : op->getUsers()) {
    auto it = slots.find(user);
    if (it == slots.end() || (first && *first < it->second))
      continue;
    first = it->second;
    isComm = it->second.lane != Lane::Compute;
  }
  return first;
}

/// Operators of no group (scalars, masks) run where they are first read. What
/// prepares a collective's operand runs before it on its queue, so that it does
/// not wait for the computation beside it.
void PlanFollower::placeUnplanned() {
  Slot last;
  for (auto &[op, slot] : slots)
    last = std::max(last, slot);
  last.lane = Lane::Compute;
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    if (isSource(&op))
      continue;
    bool isPart = isLocalChange(&op), isComm = false;
    std::optional<Slot> reader = getFirstReader(&op, isComm);
    auto own = slots.find(&op);
    if (own != slots.end()) {
      if (isPart && isComm && !(own->second < *reader))
        own->second = *reader;
      continue;
    }
    Slot slot = reader.value_or(last);
    if (!isPart || !isComm)
      slot.lane = Lane::Compute;
    slots[&op] = slot;
  }
}

/// What iterations add up is added as soon as it is there.
void PlanFollower::placeCarried() {
  for (auto carry : block.getOps<CarryOp>())
    if (auto it = slots.find(carry.getInput().getDefiningOp());
        it != slots.end() && it->second.lane == Lane::Compute)
      slots[carry] = it->second;
}

/// Stages of a plan know no loops: those that lie in several segments become
/// several.
void PlanFollower::separateSegments() {
  auto segments = getSegments(block);
  std::map<std::pair<int64_t, int64_t>, int64_t> numbers;
  for (auto &[op, slot] : slots)
    numbers[{segments.lookup(op), slot.stage}] = 0;
  if (numbers.empty() || numbers.rbegin()->first.first == 0)
    return;
  SmallVector<int64_t, 1> turns = spmd::getPlanned(step).inTurn, inTurn;
  SmallVector<int64_t> first = getAhead(step), ahead;
  for (auto [index, entry] : llvm::enumerate(numbers)) {
    entry.second = index;
    if (llvm::is_contained(turns, entry.first.second))
      inTurn.push_back(index);
    if (llvm::is_contained(first, entry.first.second))
      ahead.push_back(index);
  }
  for (auto &[op, slot] : slots)
    slot.stage = numbers.at({segments.lookup(op), slot.stage});
  editPlanned(step, [&](Planned &planned) { planned.inTurn = inTurn; });
  setAhead(step, ahead);
}

LogicalResult PlanFollower::verify(Operation *op) const {
  auto it = slots.find(op);
  if (it == slots.end())
    return success();
  for (Value operand : op->getOperands()) {
    auto made = slots.find(operand.getDefiningOp());
    if (made == slots.end() || !(it->second < made->second))
      continue;
    return op->emitError()
           << "runs in stage " << it->second.stage << ", strand "
           << it->second.strand << ", but reads what stage "
           << made->second.stage << ", strand " << made->second.strand
           << " makes; expected a plan whose stages follow each other, with "
              "collectives in a later stage than their operands";
  }
  return success();
}

LogicalResult PlanFollower::run() {
  hurryLoss();
  findStrands();
  for (Operation &op : block.without_terminator())
    if (!isSource(&op))
      if (std::optional<Slot> slot = getPlanned(&op))
        slots[&op] = *slot;
  placeUnplanned();
  for (Operation &op : block.without_terminator())
    if (failed(verify(&op)))
      return failure();
  placeCarried();
  separateSegments();
  for (Operation &op : block.without_terminator())
    if (auto it = slots.find(&op); it != slots.end())
      setSlot(&op, it->second);
  return success();
}
