//===- Pool.cpp - finished plans, the best one first ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Stages/Pool.h"
#include "Tandem/Limits.h"
#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

using namespace tandem::cost;
using namespace tandem::search;

void PlanPool::addTotals(const Plan &plan, const CostReport &report) {
  PlanTotals &sums = totals.emplace_back();
  double strands = static_cast<double>(facts.numStrands);
  for (unsigned op = 0; op < plan.signatures.size(); ++op) {
    const Signature &signature =
        facts.problem.getSignatures(op)[plan.signatures[op]];
    if (facts.isArgument(op))
      continue;
    double seconds =
        (facts.isPerStrand(signature) ? strands : 1) * signature.seconds;
    (facts.problem.operators[op].isAgain ? sums.again
     : facts.isPerStrand(signature)      ? sums.split
     : facts.mayHide[op]                 ? sums.once
                                         : sums.alone) += seconds;
  }
  for (const CopyChange &change : report.changes) {
    const ChangeCost &cost =
        table.getCost(change.copy.tensor, change.from, change.copy.layout);
    double once = 0, split = 0;
    for (unsigned q = 0; q < kMaxAxes; ++q) {
      once += cost.collectiveOnce[q];
      split += strands * cost.collectivePerStrand[q];
    }
    if (change.waits) {
      sums.waiting += once + split;
    } else if (cost.joins) {
      sums.joined += once + split;
    } else {
      sums.collectiveOnce += once;
      sums.collectiveSplit += split;
    }
  }
}

double PlanPool::take(const Plan &plan) {
  ++numPlans;
  std::string error;
  std::optional<CostReport> report =
      cost::cost(facts.problem, plan, table, error);
  if (!report)
    return kInfinity;
  addTotals(plan, *report);
  if (report->peak < leastPeak) {
    leastPeak = report->peak;
    smallest = plan;
  }
  if (report->seconds < leastSeconds) {
    leastSeconds = report->seconds;
    cheapest = plan;
  }
  if (report->peak > facts.problem.memoryLimit)
    return kInfinity;
  if (report->seconds < offered.seconds)
    offered = {plan, report->seconds};
  if (report->seconds < seconds) {
    seconds = report->seconds;
    best = plan;
    ++numBest;
  }
  return report->seconds;
}

/// Finds stages for the plan's signatures, kept and waiting copies.
double PlanPool::divide(Plan &plan, unsigned maxFront) {
  if (!forms.analyse(plan))
    return kInfinity;
  StageLimits limits{.maxFront = maxFront, .memory = facts.problem.memoryLimit};
  if (!stages.plan(forms, plan, limits)) {
    // What waits is only estimated there: the finest division decides.
    plan.stageEnds.clear();
    plan.ahead.clear();
    for (unsigned op = 0; op < facts.problem.operators.size(); ++op)
      if (!facts.isArgument(op))
        plan.stageEnds.push_back(op + 1);
    plan.stageEnds.back() = facts.problem.operators.size();
  }
  return take(plan);
}

/// The kept copies, first those that take the most seconds to be made again per
/// byte that this saves: what they would be made of has to be held instead,
/// but for arguments, which are there. `numFree` of them save nothing.
std::vector<Copy> PlanPool::rankKept(const Plan &plan, size_t &numFree) {
  std::vector<std::tuple<double, int64_t, Copy>> ranked;
  for (const Copy &copy : plan.kept) {
    const Layout &produced = facts.getProduced(plan.signatures, copy.tensor);
    const ChangeCost &change =
        table.getCost(copy.tensor, produced, copy.layout);
    int64_t bytes = facts.problem.getBytes(copy.tensor, copy.layout);
    if (!facts.isArgument(facts.tensors[copy.tensor].producer))
      bytes -= std::min(bytes, facts.problem.getBytes(copy.tensor, produced));
    numFree += bytes == 0;
    double seconds =
        change.isPossible ? change.getTotal(facts.numStrands) : kInfinity;
    ranked.emplace_back(bytes == 0 ? -kInfinity
                                   : -seconds / static_cast<double>(bytes + 1),
                        -bytes, copy);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<Copy> kept;
  for (const auto &entry : ranked)
    kept.push_back(std::get<Copy>(entry));
  return kept;
}

/// Keeps as many copies as the limit lets, those first that save the most.
double PlanPool::fit(Plan &plan) {
  double least = divide(plan, kQuickFront);
  if (least < kInfinity || plan.kept.empty())
    return least;
  size_t numFree = 0;
  std::vector<Copy> ranked = rankKept(plan, numFree);
  auto keep = [&](size_t count) {
    plan.kept.assign(ranked.begin(), ranked.begin() + count);
    std::sort(plan.kept.begin(), plan.kept.end());
    double seconds = divide(plan, kQuickFront);
    least = std::min(least, seconds);
    return seconds < kInfinity;
  };
  size_t low = numFree, high = ranked.size();
  unsigned rounds = facts.isLarge() ? kLargeFitRounds : kFitRounds;
  bool fits = keep(low);
  if (!fits && low > 0) {
    high = std::exchange(low, 0);
    fits = keep(low);
  }
  if (!fits || !facts.does(Mechanism::KeptFit))
    return least;
  for (unsigned round = 0; round < rounds && high - low > 1; ++round) {
    size_t middle = low + (high - low) / 2;
    (keep(middle) ? low : high) = middle;
  }
  return least;
}

double PlanPool::offer(const std::vector<unsigned> &signatures) {
  double least = kInfinity;
  offered = {};
  for (bool waits : {true, false}) {
    Plan plan;
    plan.signatures = signatures;
    if (!forms.choose(plan, waits))
      return kInfinity;
    if (waits && plan.waiting.empty())
      continue;
    least = std::min(least, fit(plan));
    // What waits takes less time, but may hold more memory.
    if (least < kInfinity && facts.isLarge())
      break;
  }
  return least;
}

/// How many divisions to keep per operator, all pairs of which are compared.
unsigned PlanPool::getFront(double work) const {
  double numOperators = static_cast<double>(facts.problem.operators.size() + 1);
  return static_cast<unsigned>(std::clamp<double>(
      std::sqrt(work / numOperators), kQuickFront,
      facts.does(Mechanism::Careful) ? kCarefulFront : kQuickFront));
}

PlanPool::Record PlanPool::forget() {
  Record record{std::move(best), seconds};
  best.reset();
  seconds = kInfinity;
  ++numBest;
  return record;
}

void PlanPool::restore(Record record) {
  if (!record.plan || (best && seconds < record.seconds))
    return;
  best = std::move(record.plan);
  seconds = record.seconds;
  ++numBest;
}

double PlanPool::offerDivided(const Plan &plan, bool isCareful) {
  offered = {};
  double least = take(plan);
  Plan divided = plan;
  return std::min(
      least, divide(divided, isCareful ? getFront(kCarefulWork) : kQuickFront));
}

double PlanPool::offer(const Plan &plan) {
  double least = offer(plan.signatures);
  least = std::min(least, take(plan));
  Plan divided = plan;
  return std::min(least, divide(divided, getFront(kStartWork)));
}

/// What the plan costs; infinity if it is not legal within the limit.
double PlanPool::getSeconds(const Plan &plan) const {
  std::string error;
  std::optional<CostReport> report =
      cost::cost(facts.problem, plan, table, error);
  bool fits = report && report->peak <= facts.problem.memoryLimit;
  return fits ? report->seconds : kInfinity;
}

void PlanPool::dropCuts() {
  for (unsigned op = 1; op < facts.problem.operators.size(); ++op) {
    Plan other = *best;
    auto place =
        std::lower_bound(other.stageEnds.begin(), other.stageEnds.end(), op);
    if (*place != op)
      continue;
    other.removeCut(place);
    if (getSeconds(other) <= seconds * (1 + kEqualCost))
      best = std::move(other);
  }
}
