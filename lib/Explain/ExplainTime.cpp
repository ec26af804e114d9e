//===- ExplainTime.cpp - slots and exposed time ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainTime.h"
#include "tandem/Cost/Slots.h"
#include <algorithm>
#include <cmath>
#include <deque>
#include <tuple>

using namespace tandem::cost;
using namespace tandem::explain;

/// What sums of seconds lose to floating point, relative.
constexpr double kRounding = 1e-12;

static double getSum(const Queue &queue) {
  double sum = 0;
  for (const auto &[index, seconds] : queue)
    sum += seconds;
  return sum;
}

static std::string_view getCollectiveName(Form from, Form to) {
  if (from == to || (from == kFull && to >= 0))
    return "";
  if (from >= 0)
    return to >= 0 ? "all-to-all" : "all-gather";
  return to >= 0 ? "reduce-scatter" : "all-reduce";
}

std::string_view tandem::explain::getStepName(const SearchProblem &problem,
                                              const AxisChange &step) {
  std::string_view name = getCollectiveName(step.from, step.to);
  if (name.empty() || !problem.axes[step.axis].isTime)
    return name;
  return step.from == kReduce ? "sum" : "concatenate";
}

TimeAnalysis::TimeAnalysis(const SearchProblem &problem, const Plan &plan,
                           const CostReport &report, ChangeTable &table)
    : problem(problem), plan(plan), report(report), table(table),
      numStrands(problem.getNumStrands()), ofStage(plan.stageEnds.size()),
      joins(plan.stageEnds.size()) {
  time.seconds = report.seconds;
  if (getRules(problem.accounting).hasStagePasses()) {
    addStagePasses();
  } else {
    addComputation();
    addTransfers();
    addSlots();
    addWaiting();
  }
  for (Transfer &transfer : transfers) {
    // Shares of several slots add up to all of it, but for their rounding.
    if (std::abs(transfer.total - transfer.exposed) <
        kRounding * transfer.total)
      transfer.exposed = transfer.total;
    time.communication += transfer.total;
    time.exposed += transfer.exposed;
  }
}

//===----------------------------------------------------------------------===//
// What there is
//===----------------------------------------------------------------------===//

double tandem::explain::getComputeSeconds(const SearchProblem &problem,
                                          const Plan &plan, unsigned op) {
  const Operator &info = problem.operators[op];
  const Signature &signature = problem.getSignatures(op)[plan.signatures[op]];
  if (const AccountingRules &rules = getRules(problem.accounting);
      rules.hasStagePasses())
    return rules.getComputation() * signature.seconds;
  if (info.isArgument())
    return 0;
  double strands = problem.isOverTime(signature)
                       ? static_cast<double>(problem.getNumStrands())
                       : 1;
  return strands * signature.seconds;
}

void TimeAnalysis::addComputation() {
  for (unsigned op = 0; op < problem.operators.size(); ++op)
    time.computation[static_cast<unsigned>(problem.operators[op].pass)] +=
        getComputeSeconds(problem, plan, op);
  time.local = report.secondsOverTime;
}

void TimeAnalysis::addTransfers() {
  for (unsigned i = 0; i < report.changes.size(); ++i) {
    const CopyChange &change = report.changes[i];
    for (const AxisChange &step : table.getSequence(
             change.copy.tensor, change.from, change.copy.layout)) {
      std::string_view kind = getStepName(problem, step);
      if (kind.empty())
        continue;
      // Work over time is computation, but for what the queue takes with it.
      if (problem.axes[step.axis].isTime && !change.waits) {
        joins[change.stage] = true;
        continue;
      }
      double strands = step.isPerStrand ? static_cast<double>(numStrands) : 1;
      Transfer transfer{
          i,          kind,         step.axis,        change.copy.pass,
          step.bytes, step.seconds, step.isPerStrand, change.waits};
      transfer.total = strands * step.seconds;
      transfer.count = static_cast<unsigned>(strands);
      if (!change.waits)
        ofStage[change.stage].push_back(transfers.size());
      transfers.push_back(transfer);
    }
  }
}

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

/// Why the collectives of step `slot` are exposed.
Cause TimeAnalysis::getCause(unsigned slot, double computation,
                             double collective) const {
  unsigned stage = report.steps[slot].stage;
  if (numStrands == 1)
    return Cause::NoStrands;
  if (slot == 0)
    return Cause::FirstSlot;
  if (report.slots[slot].isSerial) {
    if (report.stageStrands[stage] > 1)
      return Cause::AfterJoin;
    return joins[stage] ? Cause::Join : Cause::NotSplit;
  }
  Interference interference(problem);
  bool isLonger = collective + interference.gamma * computation >
                  computation + interference.beta * collective;
  return isLonger ? Cause::TooLittleComputation : Cause::SlowDown;
}

void TimeAnalysis::addSlots() {
  double beta = Interference(problem).beta;
  for (unsigned j = 0; j < report.steps.size(); ++j) {
    const Step &step = report.steps[j];
    double share = report.stageStrands[step.stage] == 1
                       ? static_cast<double>(numStrands)
                       : 1;
    double before = j > 0 ? report.steps[j - 1].computation : 0;
    std::array<Queue, kMaxAxes> queues;
    for (unsigned index : ofStage[step.stage]) {
      const Transfer &transfer = transfers[index];
      double seconds = transfer.isPerStrand ? share * transfer.seconds
                       : step.strand == 0   ? transfer.seconds
                                            : 0;
      queues[problem.axes[transfer.axis].queue].emplace_back(index, seconds);
    }
    // The others lie beside it.
    const Queue &longest = *std::ranges::max_element(queues, {}, getSum);
    double exposed = report.slots[j].seconds - before - step.ahead -
                     beta * report.slots[j].waited;
    expose(getCause(j, before, getSum(longest)), exposed, longest);
  }
}

/// First in, first out: in the order of the gradients' producers.
void TimeAnalysis::addWaiting() {
  std::vector<unsigned> producers = problem.getProducers();
  std::vector<unsigned> order;
  for (unsigned i = 0; i < transfers.size(); ++i)
    if (transfers[i].waits)
      order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](unsigned a, unsigned b) {
    unsigned first = report.changes[transfers[a].change].copy.tensor,
             second = report.changes[transfers[b].change].copy.tensor;
    return std::tie(producers[first], first) <
           std::tie(producers[second], second);
  });
  std::deque<std::pair<unsigned, double>> queue;
  for (unsigned index : order)
    queue.emplace_back(index, transfers[index].total);
  double beta = Interference(problem).beta;
  auto take = [&](Cause cause, double seconds, double exposed) {
    Queue taken;
    while (!queue.empty() && seconds > 0) {
      auto &[index, left] = queue.front();
      taken.emplace_back(index, std::min(seconds, left));
      seconds -= taken.back().second;
      left -= taken.back().second;
      if (left <= 0)
        queue.pop_front();
    }
    expose(cause, exposed, std::move(taken));
  };
  for (const Slot &slot : report.slots)
    take(Cause::SlowDown, slot.waited, beta * slot.waited);
  take(Cause::LeftOver, report.exposedWait, report.exposedWait);
}

/// Shares exposed seconds out among what communicates meanwhile.
void TimeAnalysis::expose(Cause cause, double seconds, Queue beside) {
  double sum = getSum(beside);
  if (seconds <= 0 || sum <= 0)
    return;
  for (auto &[index, own] : beside) {
    own = seconds * own / sum;
    transfers[index].exposed += own;
  }
  slots.push_back({cause, seconds, std::move(beside)});
}

//===----------------------------------------------------------------------===//
// Stages that run passes
//===----------------------------------------------------------------------===//

/// Forward seconds of each stage, of one strand.
std::vector<double> TimeAnalysis::getStageComputation() const {
  std::vector<double> computation(plan.stageEnds.size());
  for (unsigned op = 0, stage = 0; op < problem.operators.size(); ++op) {
    while (op >= plan.stageEnds[stage])
      ++stage;
    computation[stage] +=
        problem.getSignatures(op)[plan.signatures[op]].seconds;
  }
  return computation;
}

/// What each stage sends in each pass.
std::vector<std::vector<Queue>>
TimeAnalysis::addPassTransfers(const AccountingRules &rules) {
  std::vector<std::vector<Queue>> sent(
      rules.passes.size(), std::vector<Queue>(plan.stageEnds.size()));
  for (unsigned i = 0; i < report.changes.size(); ++i) {
    const CopyChange &change = report.changes[i];
    unsigned tensor = change.copy.tensor;
    auto changes =
        getPassChanges(problem, tensor, change.from[0], change.copy.layout[0]);
    for (size_t pass = 0; changes && pass < changes->size(); ++pass) {
      double once = (*changes)[pass].seconds;
      if (once <= 0)
        continue;
      sent[pass][change.stage].emplace_back(transfers.size(), once);
      transfers.push_back(
          {i, getChangeName(*(*changes)[pass].collective), 0,
           rules.passes[pass].pass, problem.getBytes(tensor, Layout()), once,
           true, false, kStagePassStrands * once, 0, kStagePassStrands});
    }
  }
  return sent;
}

/// Two strands, so two slots per stage and pass.
void TimeAnalysis::addStagePasses() {
  const AccountingRules &rules = getRules(problem.accounting);
  std::vector<double> computation = getStageComputation();
  std::vector<std::vector<Queue>> sent = addPassTransfers(rules);
  auto addSlot = [&](const Queue &queue, double beside, bool overlaps,
                     bool isFirst) {
    Cause cause = !overlaps ? Cause::SerialBackward
                  : isFirst ? Cause::FirstSlot
                            : Cause::TooLittleComputation;
    expose(cause, overlaps ? getSum(queue) - beside : getSum(queue), queue);
  };
  for (unsigned stage = 0; stage < computation.size(); ++stage) {
    double previous = stage > 0 ? computation[stage - 1] : 0;
    for (size_t i = 0; i < rules.passes.size(); ++i) {
      const StagePass &pass = rules.passes[i];
      addSlot(sent[i][stage], pass.computation * previous, pass.overlaps,
              stage == 0);
      addSlot(sent[i][stage], pass.computation * computation[stage],
              pass.overlaps, false);
      time.computation[static_cast<unsigned>(pass.pass)] +=
          pass.computation * (previous + computation[stage]);
    }
  }
  time.computation[static_cast<unsigned>(rules.passes.front().pass)] +=
      computation.empty() ? 0 : computation.back();
}

//===----------------------------------------------------------------------===//
// A plan and its time
//===----------------------------------------------------------------------===//

PlanFacts::PlanFacts(const SearchProblem &problem, const Plan &plan,
                     ChangeTable table, CostReport report)
    : problem(problem), plan(plan), index(problem), table(std::move(table)),
      report(std::move(report)),
      analysis(problem, plan, this->report, this->table), names(problem) {}

std::set<Layout> PlanFacts::getLayouts(unsigned tensor) const {
  const TensorFacts &info = index.tensors[tensor];
  std::set<Layout> layouts;
  for (const Signature &signature : problem.getSignatures(info.producer))
    layouts.insert(signature.results[info.result]);
  return layouts;
}

std::unique_ptr<PlanFacts> PlanFacts::make(const SearchProblem &problem,
                                           const Plan &plan,
                                           std::string &error) {
  ChangeTable table(problem);
  std::optional<CostReport> report = cost::cost(problem, plan, table, error);
  if (!report)
    return nullptr;
  return std::unique_ptr<PlanFacts>(
      new PlanFacts(problem, plan, std::move(table), std::move(*report)));
}
