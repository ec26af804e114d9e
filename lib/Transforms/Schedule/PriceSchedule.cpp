//===- PriceSchedule.cpp - a schedule by the prices of its plan -----------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whether a schedule keeps what its plan promised: its steps, by the durations
// that the plan counted, take no longer than the plan costs. What a step takes
// is a simulation of the Program (docs/rationale/simulation.md), which has
// other commands: kernels of many operators.
//
// Queues work off their steps in order; a step begins when the events that it
// awaits have happened. While some compute and some communicate, computation
// runs at 1 / a of its speed and communication at 1 / b (a, b: the slow-downs
// of the problem), which gives the slots of Cost/Slots.h: max(p + beta c, c +
// gamma p). Where that would be slower than one after the other, it is one
// after the other. The latency of a piece of a collective disturbs nothing, nor
// do queues of one role each other: prices know of no contention between them.
// Copies from and to the host disturb nothing here: their prices have what
// computation loses beside them.
//
//===----------------------------------------------------------------------===//

#include "QueueClock.h"
#include "Roles.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem/Transforms/Schedule/Schedule.h"
#include "tandem/Transforms/StepPass.h"
#include "llvm/Support/Format.h"
#include <cmath>
#include <deque>
#include <set>

namespace tandem {
#define GEN_PASS_DEF_PRICESCHEDULEPASS
#include "tandem/Transforms/Schedule/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using sched::StepOp;

namespace {
/// What is left of a step, in seconds.
struct Work {
  StepOp step;
  double latency = 0, seconds = 0;
};

struct Prices {
  double cost = 0, computeSlowdown = 1, collectiveSlowdown = 1;
};

class ScheduleClock {
public:
  ScheduleClock(Prices prices, func::FuncOp function)
      : prices(prices), numbers(function), queues(numbers.size()) {}
  double run(func::FuncOp function);

private:
  void addStep(StepOp step);
  Work *getRunning(unsigned queue);
  SmallVector<Work *, 2> getRunning();
  bool isReady(const Work &work) const;
  double getSpeed(const Work &work, ArrayRef<Work *> running) const;
  void advance(ArrayRef<Work *> running);

  Prices prices;
  sched::Queues numbers;
  std::vector<std::deque<Work>> queues;
  llvm::DenseSet<Value> happened;
  /// What was counted: a group's seconds stand on one operator, which may have
  /// been taken apart.
  std::set<std::pair<int64_t, int64_t>> counted;
  double now = 0;
};

struct PriceSchedulePass
    : tandem::StepPass<tandem::impl::PriceSchedulePassBase<PriceSchedulePass>> {
  LogicalResult runOnStep(func::FuncOp function) override;
};
} // namespace

static std::optional<Prices> readPrices(func::FuncOp function) {
  auto module = function->getParentOfType<ModuleOp>();
  spmd::PricesAttr found = spmd::getPlanned(module).prices;
  if (!found)
    return std::nullopt;
  Prices prices{found.getCost().getValueAsDouble(),
                found.getComputeSlowdown().getValueAsDouble(),
                found.getCollectiveSlowdown().getValueAsDouble()};
  // Slower together than apart: half of the time for each.
  if (1 / prices.computeSlowdown + 1 / prices.collectiveSlowdown <= 1)
    prices.computeSlowdown = prices.collectiveSlowdown = 2;
  return prices;
}

void ScheduleClock::addStep(StepOp step) {
  Work work{step, 0, 0};
  for (Operation &op : step.getBody().front()) {
    spmd::Planned planned = spmd::getPlanned(&op);
    if (planned.seconds == 0)
      continue;
    // What is made again counts once; pieces of a collective add up.
    std::optional<int64_t> id = nn::getId(&op);
    if (id && !isCollective(&op) &&
        !counted.insert({*id, getStrand(&op).value_or(-1)}).second)
      continue;
    work.latency += planned.latency;
    work.seconds += planned.seconds - planned.latency;
  }
  queues[numbers.getNumber(step.getQueue())].push_back(work);
}

bool ScheduleClock::isReady(const Work &work) const {
  StepOp step = work.step;
  return llvm::all_of(step.getAfter(),
                      [&](Value event) { return happened.contains(event); });
}

/// The step that the queue works on; null if it waits or is done. Steps that
/// take no time end at once.
Work *ScheduleClock::getRunning(unsigned queue) {
  while (!queues[queue].empty() && isReady(queues[queue].front())) {
    Work &front = queues[queue].front();
    if (front.latency > 0 || front.seconds > 0)
      return &front;
    happened.insert(front.step.getEvent());
    queues[queue].pop_front();
  }
  return nullptr;
}

/// What all queues work on. An end on one queue may begin something on another.
SmallVector<Work *, 2> ScheduleClock::getRunning() {
  while (true) {
    size_t known = happened.size();
    SmallVector<Work *, 2> running;
    for (unsigned queue = 0; queue < queues.size(); ++queue)
      if (Work *work = getRunning(queue))
        running.push_back(work);
    if (known == happened.size())
      return running;
  }
}

static sched::QueueRole getRole(const Work &work) {
  StepOp step = work.step;
  return step.getQueue().getRole();
}

static bool computes(const Work &work) {
  return getRole(work) == sched::QueueRole::Compute;
}

/// Whether it needs the links of collectives, or the cores.
static bool isBusy(const Work &work) {
  return computes(work) || (getRole(work) == sched::QueueRole::Communication &&
                            work.latency == 0);
}

double ScheduleClock::getSpeed(const Work &work,
                               ArrayRef<Work *> running) const {
  bool isSlowed = isBusy(work) && llvm::any_of(running, [&](Work *other) {
                    return computes(*other) != computes(work) && isBusy(*other);
                  });
  if (!isSlowed)
    return 1;
  return 1 /
         (computes(work) ? prices.computeSlowdown : prices.collectiveSlowdown);
}

/// Up to the next end of a step, or of a latency.
void ScheduleClock::advance(ArrayRef<Work *> running) {
  SmallVector<double, 2> speeds;
  double span = std::numeric_limits<double>::infinity();
  auto getLeft = [](Work *work) -> double & {
    return work->latency > 0 ? work->latency : work->seconds;
  };
  for (Work *work : running) {
    speeds.push_back(getSpeed(*work, running));
    span = std::min(span, getLeft(work) / speeds.back());
  }
  for (auto [work, speed] : llvm::zip_equal(running, speeds)) {
    double &left = getLeft(work);
    // What ends now ends, whatever the rounding.
    left = left / speed <= span ? 0 : left - span * speed;
  }
  now += span;
}

double ScheduleClock::run(func::FuncOp function) {
  for (auto step : function.getBody().front().getOps<StepOp>())
    addStep(step);
  while (true) {
    SmallVector<Work *, 2> running = getRunning();
    if (running.empty())
      return now;
    advance(running);
  }
}

/// As searches print their costs (`printSeconds` in tandem/Cost/Plan.h, which
/// stages do not see): six decimals, below a millisecond six digits.
static std::string printSeconds(double seconds) {
  int decimals = seconds > 0 && seconds < 1e-3
                     ? 5 - static_cast<int>(std::floor(std::log10(seconds)))
                     : 6;
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.*f s", decimals, seconds);
  return text;
}

LogicalResult PriceSchedulePass::runOnStep(func::FuncOp function) {
  std::optional<Prices> prices = readPrices(function);
  if (!prices)
    return success();
  double seconds = ScheduleClock(*prices, function).run(function);
  function.emitRemark() << "schedule " << printSeconds(seconds)
                        << ", cost of the plan " << printSeconds(prices->cost);
  return success();
}
