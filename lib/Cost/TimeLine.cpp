//===- TimeLine.cpp - steps, slots and the waiting queue ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TimeLine.h"
#include "tandem/Cost/Slots.h"
#include <deque>
#include <tuple>

using namespace tandem::cost;

namespace {
/// What a stage does, before it is divided into steps.
struct StageWork {
  bool joins = false, dependsOnStrand = false;
  std::array<double, kMaxAxes> collectivePerStrand{}, collectiveOnce{};
  double computationPerStrand = 0, computationOnce = 0, sums = 0;
};

/// A waiting copy in the queue.
struct Waiter {
  unsigned copy;
  double seconds;
};

class TimeLine {
public:
  TimeLine(const SearchProblem &problem, const Placement &placement,
           CostReport &report)
      : problem(problem), placement(placement), report(report),
        interference(problem), numStrands(problem.getNumStrands()),
        spans(placement.copies.size()) {}

  void addWork();
  void makeSteps();
  void makeSlots();

  std::vector<std::optional<WaitSpan>> takeSpans() { return std::move(spans); }

  const Plan *plan = nullptr;

private:
  void addOperator(unsigned op);
  void enqueue(unsigned step);
  void takeWaiting(double computation, double collective, Slot &slot,
                   unsigned stage);
  void exposeWaiting();

  const SearchProblem &problem;
  const Placement &placement;
  CostReport &report;
  Interference interference;
  int64_t numStrands;
  std::vector<StageWork> work;
  /// Waiting copies by the stage of their gradient, in the order of producers.
  std::vector<std::vector<unsigned>> waitersOf;
  std::deque<Waiter> queue;
  std::vector<std::optional<WaitSpan>> spans;
};
} // namespace

void TimeLine::addOperator(unsigned op) {
  const Operator &info = problem.operators[op];
  if (info.isArgument())
    return;
  StageWork &stage = work[placement.stageOf[op]];
  double seconds = problem.getSignatures(op)[plan->signatures[op]].seconds;
  if (problem.isOverTime(problem.getSignatures(op)[plan->signatures[op]])) {
    stage.dependsOnStrand = true;
    stage.computationPerStrand += seconds;
  } else {
    stage.computationOnce += seconds;
  }
}

void TimeLine::addWork() {
  work.resize(placement.numStages);
  waitersOf.resize(placement.numStages);
  for (unsigned op = 0; op < problem.operators.size(); ++op)
    addOperator(op);
  for (const PlacedTensor &tensor : placement.tensors)
    if (tensor.isSummed && tensor.stage != kBeforeAll) {
      work[tensor.stage].sums += tensor.sumSeconds;
      report.secondsOverTime += tensor.sumSeconds;
    }
  for (unsigned i = 0; i < placement.copies.size(); ++i) {
    const PlacedCopy &copy = placement.copies[i];
    if (copy.waits) {
      waitersOf[placement.tensors[copy.copy.tensor].stage].push_back(i);
      continue;
    }
    StageWork &stage = work[copy.stage];
    stage.joins |= copy.change.joins;
    stage.computationOnce += copy.change.local;
    report.secondsOverTime += copy.change.local;
    for (unsigned q = 0; q < kMaxAxes; ++q) {
      stage.collectivePerStrand[q] += copy.change.collectivePerStrand[q];
      stage.collectiveOnce[q] += copy.change.collectiveOnce[q];
    }
  }
  auto getProducer = [&](unsigned copy) {
    unsigned tensor = placement.copies[copy].copy.tensor;
    return std::make_tuple(placement.tensors[tensor].producer, tensor, copy);
  };
  for (std::vector<unsigned> &waiters : waitersOf)
    std::sort(waiters.begin(), waiters.end(), [&](unsigned a, unsigned b) {
      return getProducer(a) < getProducer(b);
    });
}

void TimeLine::makeSteps() {
  for (unsigned i = 0; i < work.size(); ++i) {
    const StageWork &stage = work[i];
    bool isSplit = numStrands > 1 && stage.dependsOnStrand && !stage.joins;
    int64_t numSteps = isSplit ? numStrands : 1;
    // One strand does the work of all.
    double share = static_cast<double>(isSplit ? 1 : numStrands);
    report.stageStrands.push_back(numSteps);
    for (int64_t strand = 0; strand < numSteps; ++strand) {
      bool isFirst = strand == 0, isLast = strand + 1 == numSteps;
      Step step{i, static_cast<unsigned>(strand), 0, 0};
      for (unsigned q = 0; q < kMaxAxes; ++q)
        step.collective = std::max(step.collective,
                                   share * stage.collectivePerStrand[q] +
                                       (isFirst ? stage.collectiveOnce[q] : 0));
      step.computation = share * stage.computationPerStrand +
                         (isFirst ? stage.computationOnce : 0) +
                         (isLast ? stage.sums : 0);
      report.steps.push_back(step);
    }
  }
}

/// The gradients that `step` finished enter the queue.
void TimeLine::enqueue(unsigned step) {
  const Step &done = report.steps[step];
  if (done.strand + 1 != report.stageStrands[done.stage])
    return;
  for (unsigned copy : waitersOf[done.stage])
    queue.push_back({copy, placement.copies[copy].change.getTotal(numStrands)});
}

void TimeLine::takeWaiting(double computation, double collective, Slot &slot,
                           unsigned stage) {
  double waiting = 0;
  for (const Waiter &waiter : queue)
    waiting += waiter.seconds;
  double room = interference.getRoom(computation, collective, slot.isSerial) -
                problem.pieceLatency;
  double taken = std::min(waiting, std::max(0.0, room));
  if (queue.empty() || taken <= 0)
    return;
  slot.waited = taken;
  slot.seconds =
      slot.isSerial
          ? slot.seconds + interference.beta * taken
          : interference.getSlot(computation, collective + taken, false);
  // What empties the queue takes all of it, whatever the rounding.
  bool takesAll = taken == waiting;
  while (!queue.empty() && (takesAll || taken > 0)) {
    Waiter &waiter = queue.front();
    std::optional<WaitSpan> &span = spans[waiter.copy];
    if (!span)
      span = WaitSpan{stage, stage};
    span->last = stage;
    if (!takesAll && taken < waiter.seconds) {
      waiter.seconds -= taken;
      return;
    }
    taken -= waiter.seconds;
    queue.pop_front();
  }
}

void TimeLine::exposeWaiting() {
  unsigned stage = std::min(placement.firstUpdateStage,
                            placement.numStages ? placement.numStages - 1 : 0);
  for (const Waiter &waiter : queue) {
    report.exposedWait += waiter.seconds;
    std::optional<WaitSpan> &span = spans[waiter.copy];
    if (!span)
      span = WaitSpan{stage, stage};
    span->last = stage;
  }
  queue.clear();
}

void TimeLine::makeSlots() {
  size_t numSteps = report.steps.size();
  // Slot j holds the collectives of step j and the computation of step j - 1.
  for (size_t j = 0; j <= numSteps; ++j) {
    double computation = j > 0 ? report.steps[j - 1].computation : 0;
    double collective = j < numSteps ? report.steps[j].collective : 0;
    unsigned stage = report.steps[std::min(j, numSteps - 1)].stage;
    Slot slot;
    if (j < numSteps) {
      bool isFirst = report.steps[j].strand == 0;
      slot.isSerial =
          report.stageStrands[stage] == 1 ||
          (isFirst && stage > 0 && report.stageStrands[stage - 1] == 1);
    }
    slot.seconds = interference.getSlot(computation, collective, slot.isSerial);
    takeWaiting(computation, collective, slot, stage);
    report.seconds += slot.seconds;
    report.slots.push_back(slot);
    if (j > 0)
      enqueue(j - 1);
    // The first update is computed in the next slot.
    if (j == numSteps ||
        (stage == placement.firstUpdateStage && report.steps[j].strand == 0))
      exposeWaiting();
  }
  report.seconds += report.exposedWait;
}

std::vector<std::optional<WaitSpan>>
tandem::cost::layOut(const SearchProblem &problem, const Plan &plan,
                     const Placement &placement, CostReport &report) {
  TimeLine line(problem, placement, report);
  line.plan = &plan;
  line.addWork();
  line.makeSteps();
  if (!report.steps.empty())
    line.makeSlots();
  return line.takeSpans();
}
