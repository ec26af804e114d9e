//===- TimeLine.cpp - steps, slots and the waiting queue ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TimeLine.h"
#include "tandem/Cost/Line.h"
#include <tuple>

using namespace tandem::cost;

void WaitQueue::take(LineState &, double taken, bool takesAll) {
  while (begin < end && (takesAll || taken > 0)) {
    Waiter &waiter = waiters[begin];
    mark(waiter);
    if (!takesAll && taken < waiter.seconds) {
      waiter.seconds -= taken;
      return;
    }
    taken -= waiter.seconds;
    ++begin;
  }
}

namespace {
/// Writes a line down. What waits is summed up anew, so that no rounding adds
/// up.
class Recorder : public WaitQueue {
public:
  explicit Recorder(CostReport &report) : report(report) {}

  void addStep(Step step) {
    step.stage = static_cast<unsigned>(stage);
    report.stageStrands.resize(stage + 1);
    ++report.stageStrands[stage];
    report.steps.push_back(step);
  }
  void addSlot(const Slot &slot) { report.slots.push_back(slot); }
  void take(LineState &line, double taken, bool takesAll) {
    WaitQueue::take(line, taken, takesAll);
    line.waiting = getSeconds();
  }
  void arrive(LineState &line) {
    WaitQueue::arrive(line);
    line.waiting = getSeconds();
  }
  void expose(const LineState &line) {
    report.exposedWait += line.waiting;
    WaitQueue::expose(line);
  }

private:
  double getSeconds() const {
    double seconds = 0;
    for (size_t i = begin; i < end; ++i)
      seconds += waiters[i].seconds;
    return seconds;
  }

  CostReport &report;
};
} // namespace

/// What each stage does.
static std::vector<StageWork> getWork(const SearchProblem &problem,
                                      const Plan &plan,
                                      const Placement &placement,
                                      CostReport &report) {
  std::vector<StageWork> work(placement.numStages);
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    const Signature &signature = problem.getSignatures(op)[plan.signatures[op]];
    bool isOverTime = problem.isOverTime(signature);
    StageWork &stage = work[placement.stageOf[op]];
    if (placement.isAhead[op])
      stage.addAhead(signature, isOverTime, problem.getNumStrands());
    else if (!problem.operators[op].isArgument())
      stage.add(signature, isOverTime);
  }
  for (const PlacedTensor &tensor : placement.tensors)
    if (tensor.isSummed && tensor.stage != kBeforeAll) {
      work[tensor.stage].sums += tensor.sumSeconds;
      report.secondsOverTime += tensor.sumSeconds;
    }
  for (const PlacedCopy &copy : placement.copies)
    if (!copy.waits) {
      work[copy.stage].add(copy.change);
      report.secondsOverTime += copy.change.local;
    }
  return work;
}

/// Copies that wait, in the order of their gradients' producers.
static std::vector<unsigned> getWaiters(const Placement &placement) {
  std::vector<unsigned> waiters;
  for (unsigned i = 0; i < placement.copies.size(); ++i)
    if (placement.copies[i].waits)
      waiters.push_back(i);
  auto getProducer = [&](unsigned copy) {
    unsigned tensor = placement.copies[copy].copy.tensor;
    return std::make_tuple(placement.tensors[tensor].producer, tensor, copy);
  };
  std::ranges::sort(waiters, {}, getProducer);
  return waiters;
}

std::vector<std::optional<WaitSpan>>
tandem::cost::layOut(const SearchProblem &problem, const Plan &plan,
                     const Placement &placement, CostReport &report) {
  std::vector<std::optional<WaitSpan>> spans(placement.copies.size());
  std::vector<StageWork> work = getWork(problem, plan, placement, report);
  if (work.empty())
    return spans;
  std::vector<unsigned> waiters = getWaiters(placement);
  auto getStage = [&](unsigned copy) {
    return placement.tensors[placement.copies[copy].copy.tensor].stage;
  };
  Line line(problem);
  LineState state;
  Recorder recorder(report);
  for (unsigned stage = 0; stage < work.size(); ++stage) {
    recorder.stage = static_cast<int>(stage);
    line.close<Recorder &>(state, work[stage], 0,
                           stage == placement.firstUpdateStage, recorder);
    for (size_t i = recorder.waiters.size();
         i < waiters.size() && getStage(waiters[i]) == int(stage); ++i) {
      const ChangeCost &change = placement.copies[waiters[i]].change;
      recorder.waiters.push_back({change.getTotal(problem.getNumStrands())});
    }
  }
  line.finish<Recorder &>(state, recorder);
  for (size_t i = 0; i < waiters.size(); ++i)
    spans[waiters[i]] = {static_cast<unsigned>(recorder.waiters[i].first),
                         static_cast<unsigned>(recorder.waiters[i].last)};
  // What is left over counts last.
  for (const Slot &slot : report.slots)
    report.seconds += slot.seconds;
  report.seconds += report.exposedWait;
  return spans;
}
