//===- PlaceEvents.cpp - which steps wait for which -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "QueueClock.h"
#include "Roles.h"
#include "tandem/Transforms/Schedule/Schedule.h"
#include "tandem/Transforms/StepPass.h"

namespace tandem {
#define GEN_PASS_DEF_PLACEEVENTSPASS
#include "tandem/Transforms/Schedule/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using sched::StepOp;

namespace {
class PlaceEventsPass
    : public tandem::StepPass<
          tandem::impl::PlaceEventsPassBase<PlaceEventsPass>> {
public:
  LogicalResult runOnStep(func::FuncOp function) override;

private:
  int64_t getNeeded(StepOp step, sched::Queue other) const;
  int64_t getLockStep() const;

  QueueClock clock;
  Operation *loss = nullptr;
};
} // namespace

/// Whether `step` reads what was computed, and nothing else that was made: such
/// a collective comes when its operand is there, and nothing piles up.
static bool followsComputation(StepOp step) {
  SmallVector<StepOp> read = getReadSteps(step);
  return !read.empty() && llvm::all_of(read, [](StepOp maker) {
    return maker.getQueue() == sched::Queue::Compute;
  });
}

static bool hasUpdate(StepOp step) {
  return llvm::any_of(step.getBody().front(),
                      [](Operation &op) { return isUpdate(&op); });
}

/// The compute step two slots before the one of the next comm step, as a
/// position; 0 if there is none. While a comm step runs, the compute step of
/// the slot before it does.
int64_t PlaceEventsPass::getLockStep() const {
  return std::max<int64_t>(0, clock.getCount(sched::Queue::Compute) - 1);
}

/// How many steps of the queue `other` must be done before `step`.
int64_t PlaceEventsPass::getNeeded(StepOp step, sched::Queue other) const {
  int64_t needed = 0;
  for (StepOp maker : getReadSteps(step))
    if (maker.getQueue() == other)
      needed = std::max(needed, clock.getPosition(maker));
  if (!spmd::getPlanned(step).inTurn.empty())
    return clock.getCount(other);
  if (step.getQueue() == sched::Queue::Comm)
    return followsComputation(step) ? needed : std::max(needed, getLockStep());
  auto maker = dyn_cast_or_null<StepOp>(loss);
  if (maker && maker.getQueue() == other && hasUpdate(step))
    needed = std::max(needed, clock.getPosition(maker));
  return needed;
}

LogicalResult PlaceEventsPass::runOnStep(func::FuncOp function) {
  clock = QueueClock();
  loss = findLoss(function);
  for (auto step : function.getBody().front().getOps<StepOp>()) {
    auto other = step.getQueue() == sched::Queue::Comm ? sched::Queue::Compute
                                                       : sched::Queue::Comm;
    int64_t needed = getNeeded(step, other);
    if (needed > clock.getStart(step)[static_cast<unsigned>(other)])
      step.getAfterMutable().append(clock.getStep(other, needed).getEvent());
    step->removeAttr(spmd::kPlanAttrName);
    clock.add(step);
  }
  return success();
}
