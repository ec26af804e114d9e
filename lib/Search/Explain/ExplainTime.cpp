//===- ExplainTime.cpp - slots, and what is exposed in them ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainTime.h"
#include "tandem/Cost/Hidup.h"
#include "tandem/Cost/Slots.h"
#include <algorithm>
#include <cmath>
#include <deque>
#include <tuple>

using namespace tandem::cost;
using namespace tandem::search;

/// What sums of seconds lose to floating point, relative.
constexpr double kRounding = 1e-12;

std::string_view tandem::search::getCollectiveName(Form from, Form to) {
  if (from == to || (from == kFull && to >= 0))
    return "";
  if (from >= 0)
    return to >= 0 ? "all-to-all" : "all-gather";
  return to >= 0 ? "reduce-scatter" : "all-reduce";
}

TimeAnalysis::TimeAnalysis(const SearchProblem &problem, const Plan &plan,
                           const CostReport &report, ChangeTable &table)
    : problem(problem), plan(plan), report(report), table(table),
      numStrands(problem.getNumStrands()), ofStage(plan.stageEnds.size()) {
  time.seconds = report.seconds;
  if (problem.accounting == Accounting::Tandem) {
    addComputation();
    addTransfers();
    addSlots();
    addWaiting();
  } else {
    addHidup();
  }
  for (SlotShare &share : slots)
    shareOut(share);
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

double tandem::search::getComputeSeconds(const SearchProblem &problem,
                                         const Plan &plan, unsigned op) {
  const Operator &info = problem.operators[op];
  const Signature &signature = problem.getSignatures(op)[plan.signatures[op]];
  // The published accounting counts both duplicas and the backward pass.
  if (problem.accounting != Accounting::Tandem)
    return 6 * signature.seconds;
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
      std::string_view kind = getCollectiveName(step.from, step.to);
      bool isTime = problem.axes[step.axis].isTime;
      // Work over time is computation, but for what the queue takes with it.
      if (kind.empty() || (isTime && !change.waits))
        continue;
      if (isTime)
        kind = step.from == kReduce ? "sum" : "concatenate";
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

bool TimeAnalysis::joins(unsigned stage) const {
  return std::any_of(report.changes.begin(), report.changes.end(),
                     [&](const CopyChange &change) {
                       return change.stage == stage && !change.waits &&
                              table
                                  .getCost(change.copy.tensor, change.from,
                                           change.copy.layout)
                                  .joins;
                     });
}

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
    return joins(stage) ? Cause::Join : Cause::NotSplit;
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
    // The longest queue; the others lie beside it.
    std::array<SlotShare, kMaxAxes> queues{};
    std::array<double, kMaxAxes> sums{};
    for (unsigned index : ofStage[step.stage]) {
      const Transfer &transfer = transfers[index];
      double seconds = transfer.isPerStrand ? share * transfer.seconds
                       : step.strand == 0   ? transfer.seconds
                                            : 0;
      unsigned queue = problem.axes[transfer.axis].queue;
      sums[queue] += seconds;
      if (seconds > 0)
        queues[queue].transfers.emplace_back(index, seconds);
    }
    unsigned longest =
        std::max_element(sums.begin(), sums.end()) - sums.begin();
    if (sums[longest] <= 0)
      continue;
    SlotShare &slot = queues[longest];
    slot.stage = step.stage;
    slot.exposed = std::max(0.0, report.slots[j].seconds - before -
                                     beta * report.slots[j].waited);
    slot.cause = getCause(j, before, sums[longest]);
    slots.push_back(std::move(slot));
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
  auto take = [&](double seconds, SlotShare share) {
    while (!queue.empty() && seconds > 0) {
      auto &[index, left] = queue.front();
      double taken = std::min(seconds, left);
      share.transfers.emplace_back(index, taken);
      seconds -= taken;
      left -= taken;
      if (left <= 0)
        queue.pop_front();
    }
    slots.push_back(std::move(share));
  };
  for (unsigned j = 0; j < report.slots.size(); ++j) {
    double waited = report.slots[j].waited;
    unsigned step = std::min<unsigned>(j, report.steps.size() - 1);
    if (waited > 0)
      take(waited,
           {report.steps[step].stage, beta * waited, Cause::SlowDown, {}});
  }
  if (report.exposedWait > 0)
    take(report.exposedWait, {static_cast<unsigned>(ofStage.size()) - 1,
                              report.exposedWait,
                              Cause::LeftOver,
                              {}});
}

void TimeAnalysis::shareOut(SlotShare &share) {
  double sum = 0;
  for (const auto &[index, seconds] : share.transfers)
    sum += seconds;
  if (sum <= 0)
    return;
  for (const auto &[index, seconds] : share.transfers)
    transfers[index].exposed += share.exposed * seconds / sum;
}

//===----------------------------------------------------------------------===//
// The accountings of HiDup
//===----------------------------------------------------------------------===//

/// Two duplicas, so two slots forward and two backward per stage (Hidup.h).
void TimeAnalysis::addHidup() {
  std::vector<double> computation(plan.stageEnds.size());
  for (unsigned op = 0, stage = 0; op < problem.operators.size(); ++op) {
    while (op >= plan.stageEnds[stage])
      ++stage;
    computation[stage] +=
        problem.getSignatures(op)[plan.signatures[op]].seconds;
  }
  std::vector<std::vector<unsigned>> backward(plan.stageEnds.size());
  for (unsigned i = 0; i < report.changes.size(); ++i) {
    const CopyChange &change = report.changes[i];
    unsigned tensor = change.copy.tensor;
    Form from = change.from[0], to = change.copy.layout[0];
    std::optional<HidupChange> seconds =
        getHidupChange(problem, tensor, from, to);
    if (!seconds)
      continue;
    auto add = [&](std::string_view kind, Pass pass, double once,
                   std::vector<unsigned> &list) {
      if (once <= 0)
        return;
      list.push_back(transfers.size());
      transfers.push_back({i, kind, 0, pass, problem.getBytes(tensor, Layout()),
                           once, true, false, 2 * once, 0, 2});
    };
    add(getCollectiveName(from, to), Pass::Forward, seconds->forward,
        ofStage[change.stage]);
    // The counterpart of an all-gather is a reduce-scatter; a parameter that
    // is whole on every rank has its gradient summed.
    std::string_view kind =
        from == kReplicate           ? getCollectiveName(kReduce, kFull)
        : from >= 0 && to < 0        ? getCollectiveName(kReduce, from)
        : from == kReduce && to >= 0 ? getCollectiveName(to, kFull)
                                     : getCollectiveName(from, to);
    add(kind, Pass::Backward, seconds->backward, backward[change.stage]);
  }
  auto addSlot = [&](unsigned stage, const std::vector<unsigned> &list,
                     double beside, bool isSerial, bool isFirst) {
    double sum = 0;
    SlotShare slot{stage, 0, Cause::TooLittleComputation, {}};
    for (unsigned index : list) {
      slot.transfers.emplace_back(index, transfers[index].seconds);
      sum += transfers[index].seconds;
    }
    slot.exposed = isSerial ? sum : std::max(0.0, sum - beside);
    slot.cause = isSerial  ? Cause::SerialBackward
                 : isFirst ? Cause::FirstSlot
                           : Cause::TooLittleComputation;
    if (sum > 0)
      slots.push_back(std::move(slot));
  };
  bool isSerial = problem.accounting == Accounting::HidupSerial;
  for (unsigned stage = 0; stage < computation.size(); ++stage) {
    double previous = stage > 0 ? computation[stage - 1] : 0;
    addSlot(stage, ofStage[stage], previous, false, stage == 0);
    addSlot(stage, ofStage[stage], computation[stage], false, false);
    addSlot(stage, backward[stage], 2 * previous, isSerial, stage == 0);
    addSlot(stage, backward[stage], 2 * computation[stage], isSerial, false);
    time.computation[0] += previous + computation[stage];
    time.computation[1] += 2 * (previous + computation[stage]);
  }
  time.computation[0] += computation.empty() ? 0 : computation.back();
}

//===----------------------------------------------------------------------===//
// A plan and its time
//===----------------------------------------------------------------------===//

PlanFacts::PlanFacts(const SearchProblem &problem, const Plan &plan,
                     ChangeTable table, CostReport report)
    : problem(problem), plan(plan), facts(problem), table(std::move(table)),
      report(std::move(report)),
      analysis(problem, plan, this->report, this->table), names(problem) {}

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
