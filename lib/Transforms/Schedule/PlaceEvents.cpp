//===- PlaceEvents.cpp - events between steps -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "QueueClock.h"
#include "Roles.h"
#include "tandem/Dialect/Sched/Host.h"
#include "tandem/Transforms/Schedule/Schedule.h"
#include "tandem/Transforms/StepPass.h"

namespace tandem {
#define GEN_PASS_DEF_PLACEEVENTSPASS
#include "tandem/Transforms/Schedule/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using sched::QueueRole;
using sched::StepOp;

namespace {
/// Walks the steps in the order of the text.
class EventPlacer {
public:
  explicit EventPlacer(func::FuncOp function)
      : function(function), clock(function), loss(findLoss(function)),
        inFlight(
            getInteger(function->getParentOp(), sched::kInFlightAttrName)) {}
  void run();

private:
  void place(StepOp step);
  int64_t getNeeded(StepOp step, unsigned other) const;
  int64_t getLockStep(unsigned queue) const;
  int64_t getFetchStart(StepOp step, unsigned queue) const;
  int64_t getSent(StepOp step, unsigned other) const;
  int64_t getCollectives(StepOp step, unsigned other) const;

  func::FuncOp function;
  QueueClock clock;
  Operation *loss;
  /// Copies to the host; none where a Program fits without.
  std::optional<int64_t> inFlight;
};

struct PlaceEventsPass
    : tandem::StepPass<tandem::impl::PlaceEventsPassBase<PlaceEventsPass>> {
  LogicalResult runOnStep(func::FuncOp function) override {
    EventPlacer(function).run();
    return success();
  }
};
} // namespace

static bool isOn(StepOp step, QueueRole role) {
  return step.getQueue().getRole() == role;
}

/// Whether `step` reads what was computed, and nothing else that was made: such
/// a collective comes when its operand is there, and nothing piles up.
static bool followsComputation(StepOp step) {
  SmallVector<StepOp> read = getReadSteps(step);
  return !read.empty() && llvm::all_of(read, [](StepOp maker) {
    return isOn(maker, QueueRole::Compute);
  });
}

/// Whether a later pass reads what `step` makes of arguments alone, too: that
/// piles up anyway, so that it may come as soon as its queue is free.
static bool isKept(StepOp step) {
  ValueRange made = step.getBody().front().getTerminator()->getOperands();
  return getReadSteps(step).empty() &&
         llvm::any_of(llvm::zip(step.getValues(), made), [](auto pair) {
           auto [value, own] = pair;
           Operation *maker = own.getDefiningOp();
           return maker &&
                  llvm::any_of(value.getUsers(), [&](Operation *reader) {
                    return nn::getPass(reader) > nn::getPass(maker);
                  });
         });
}

static bool hasUpdate(StepOp step) {
  return llvm::any_of(step.getBody().front(),
                      [](Operation &op) { return isUpdate(&op); });
}

/// The last step, as a position in its queue, of the stage before the one that
/// is computed beside the next comm step; 0 if there is none.
int64_t EventPlacer::getLockStep(unsigned queue) const {
  int64_t position = clock.getCount(queue);
  if (position == 0)
    return 0;
  uint64_t beside = clock.getStep(queue, position).getStage();
  while (position > 0 && clock.getStep(queue, position).getStage() == beside)
    --position;
  return position;
}

static bool isHostCopyOn(StepOp step, unsigned number) {
  return isOn(step, QueueRole::Copy) && step.getQueue().getNumber() == number;
}

/// Of a step that computes, all copies to the host before it but the last two,
/// or that of the last bucket: their memory is for its values.
int64_t EventPlacer::getSent(StepOp step, unsigned other) const {
  sched::QueueAttr queue = clock.getQueues()[other];
  bool waits =
      queue == sched::getCopyQueue(step.getContext(), sched::kToHostQueue) &&
      isOn(step, QueueRole::Compute);
  int64_t most = inFlight.value_or(hasUpdate(step) ? 1 : 2);
  return waits ? std::max<int64_t>(clock.getCount(other) - most, 0) : 0;
}

/// Of a step that computes, the collectives of the stages before its own, as a
/// plan has it: what they read is free then.
int64_t EventPlacer::getCollectives(StepOp step, unsigned other) const {
  if (!inFlight || !isOn(step, QueueRole::Compute) ||
      clock.getQueues()[other].getRole() != QueueRole::Communication)
    return 0;
  int64_t position = clock.getCount(other);
  while (position > 0 &&
         clock.getStep(other, position).getStage() >= step.getStage())
    --position;
  return position;
}

/// Whether a step of updates reads what `fetch` copies.
static bool isOfBucket(StepOp fetch) {
  return llvm::any_of(fetch->getUsers(), [](Operation *user) {
    auto reader = user->getParentOfType<StepOp>();
    return reader && hasUpdate(reader);
  });
}

/// Of a fetch, the step behind which it may begin: the text says that of what
/// the forward and the backward pass read.
int64_t EventPlacer::getFetchStart(StepOp step, unsigned queue) const {
  return isOfBucket(step) ? getLockStep(queue) : clock.getCount(queue);
}

/// How many steps of the queue `other` must be done before `step`.
int64_t EventPlacer::getNeeded(StepOp step, unsigned other) const {
  int64_t needed = 0;
  for (StepOp maker : getReadSteps(step))
    if (clock.getQueue(maker) == other)
      needed = std::max(needed, clock.getPosition(maker));
  bool computes = clock.getQueues()[other].getRole() == QueueRole::Compute;
  if (computes && !spmd::getPlanned(step).inTurn.empty())
    return clock.getCount(other);
  if (isHostCopyOn(step, sched::kFromHostQueue))
    return computes ? std::max(needed, getFetchStart(step, other)) : needed;
  if (isOn(step, QueueRole::Copy))
    return needed;
  needed =
      std::max({needed, getSent(step, other), getCollectives(step, other)});
  if (isOn(step, QueueRole::Communication)) {
    bool locks = computes && !followsComputation(step) && !isKept(step);
    return locks ? std::max(needed, getLockStep(other)) : needed;
  }
  auto maker = dyn_cast_or_null<StepOp>(loss);
  if (maker && clock.getQueue(maker) == other && hasUpdate(step))
    needed = std::max(needed, clock.getPosition(maker));
  return needed;
}

/// Queues are first in, first out: of each other one an event is enough, and
/// none if what is waited for already knows of it.
void EventPlacer::place(StepOp step) {
  for (unsigned other = 0; other < clock.getQueues().size(); ++other) {
    if (other == clock.getQueue(step))
      continue;
    int64_t needed = getNeeded(step, other);
    if (needed > clock.getStart(step)[other])
      step.getAfterMutable().append(clock.getStep(other, needed).getEvent());
  }
  step->removeAttr(spmd::kPlanAttrName);
  clock.add(step);
}

void EventPlacer::run() {
  for (auto step : function.getBody().front().getOps<StepOp>())
    place(step);
}
