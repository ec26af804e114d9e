//===- TandemAddedUp.cpp - plans of problems whose costs add up -----------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where nothing overlaps but what waits, the cheapest forms are found directly
// (TandemSum.h): of all plans, if pieces of what waits cost nothing, and of
// given stages. Stages follow from forms and forms from stages, so both are
// chosen in turn, and two stages are joined to see whether other forms make up
// for the collectives between them (docs/rationale/search.md, *Where costs add
// up*).
//
//===----------------------------------------------------------------------===//

#include "TandemDriver.h"
#include "TandemSumSearch.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

/// Numbers that are looked at (about 10^9 in a second), where pieces cost
/// nothing, and else; in problems of more operators than so many less.
constexpr double kManySummed = 600;
constexpr uint64_t kSumWork = 40'000'000'000, kBoundWork = 3'000'000'000;
/// Of fewer sweeps nothing comes.
constexpr uint64_t kLeastSweeps = 300;
/// The share of what is left, one in so many, for the stages of one more pair
/// that is joined.
constexpr uint64_t kJoinShare = 16;
/// What forms for given stages may cost above the best ones.
constexpr double kStagesGap = 1e-7;
/// Joined stages have to gain this share.
constexpr double kWorthJoining = 1e-4;

/// Whether the problem is of this kind, and its sweeps are short enough.
bool Driver::isSum() const {
  if (!facts.does(Mechanism::Sums))
    return false;
  uint64_t work = 0;
  for (unsigned i = 0; i < graph.variables.size(); ++i)
    work += graph.getSweepWork(i);
  return work <= getSumWork(kBoundWork) / kLeastSweeps &&
         SumModel::isSum(facts);
}

/// Whether the cheapest forms are found directly: guides need not come near.
bool Driver::findsForms() const {
  return problem.operators.size() <= kManySummed && addsUp;
}

/// Numbers that a problem may look at where a small one looks at so many.
uint64_t Driver::getSumWork(uint64_t work) const {
  double share = kManySummed / static_cast<double>(problem.operators.size());
  return static_cast<uint64_t>(static_cast<double>(work) *
                               std::min(1.0, share * share));
}

/// Where memory is scarce the cheapest forms of given stages need not fit.
/// Where pieces cost nothing, larger stages gain nothing.
bool Driver::hasExactForms() const {
  bool isAmple = pool.leastSeconds >= pool.seconds * (1 - kTolerance);
  return isAmple && problem.operators.size() <= kMaxRefined &&
         problem.pieceLatency > 0 && addsUp;
}

/// Of plans whose costs add up the best one is found directly. It is the best
/// one at all if pieces of what waits cost nothing and memory suffices.
void Driver::searchAddedUp() {
  if (isClosed() || !addsUp)
    return;
  SumLimits limits;
  // A limit of time, where one is given, is the only one.
  if (options.timeLimit == 0)
    limits.maxWork =
        getSumWork(problem.pieceLatency > 0 ? kBoundWork : kSumWork);
  limits.gap = std::max(kTolerance / 2, options.gap / (1 + options.gap));
  limits.takes = [&](const Plan &plan) {
    pool.offer(plan);
    return pool.seconds;
  };
  limits.proceeds = [&](double least) {
    lowerBound = std::max(lowerBound, least);
    return proceeds(0.5) && !isClosed();
  };
  if (!facts.does(Mechanism::Branching))
    limits.maxNodes = 1;
  SumTrace from;
  limits.upperBound = pool.seconds * (1 + kTolerance);
  if (pool.best)
    from.choices.push_back(pool.best->signatures);
  SumResult sums = searchSums(facts, table, from, limits);
  lowerBound = std::max(lowerBound, sums.bound);
  numLabels += sums.numNodes;
}

/// The cheapest forms with these stages, and what better stages make of them;
/// true if that is a better plan. `work` is what is left of it; one in `share`
/// of that may be used. Plans that gain less than the share `worth` do not
/// count. Where the stages change with the forms, the search goes on from
/// there.
bool Driver::tryStages(const std::vector<unsigned> &stageEnds, uint64_t share,
                       double worth, uint64_t &work) {
  uint64_t numBest = pool.numBest;
  auto isLeft = [&] {
    return pool.numBest != numBest && pool.best->stageEnds != stageEnds;
  };
  SumLimits limits;
  limits.stageEnds = stageEnds;
  if (options.timeLimit == 0)
    limits.maxWork = work / share;
  if (!facts.does(Mechanism::Branching))
    limits.maxNodes = 1;
  limits.gap = kStagesGap;
  limits.upperBound = pool.seconds * (1 - worth);
  double &bound = stageBounds[stageEnds];
  if (bound >= limits.upperBound * (1 - kStagesGap))
    return false;
  limits.takes = [&](const Plan &plan) {
    pool.offerDivided(plan, true);
    return pool.seconds;
  };
  limits.proceeds = [&](double) {
    return !isLeft() && !isClosed() && proceeds(0.9);
  };
  if (!facts.does(Mechanism::Trace))
    trace = {};
  trace.choices.push_back(pool.best->signatures);
  SumResult sums = searchSums(facts, table, trace, limits);
  trace = std::move(sums.trace);
  bound = std::max(bound, sums.bound);
  work -= std::min(work, sums.work);
  numLabels += sums.numNodes;
  return pool.numBest != numBest;
}

/// The stages for which forms are searched, those of the best plan.
std::vector<unsigned> Driver::getDivision() {
  return isCoarse && facts.does(Mechanism::FewestStages)
             ? pool.getFewestStages()
             : pool.best->stageEnds;
}

/// Cheaper forms for the best plan's stages.
bool Driver::tryCheapestForms(uint64_t &work) {
  if (!addsUp)
    return tryUntimed();
  return facts.does(Mechanism::GivenStages) && hasExactForms() &&
         tryStages(getDivision(), 1, 0, work);
}

/// Joins two stages of the best plan, from the one that `op` begins on, until
/// that leads to a better plan; false if none does. In front of the backward
/// pass nothing waits: there a cut costs nothing.
bool Driver::joinStages(unsigned &op, uint64_t &work) {
  if (!hasExactForms())
    return false;
  const std::vector<unsigned> division = getDivision();
  unsigned numOperators = problem.operators.size();
  for (unsigned i = 0; i < numOperators; ++i) {
    op = (op + 1) % numOperators;
    std::vector<unsigned> ends = division;
    auto place = std::lower_bound(ends.begin(), ends.end(), op);
    if (*place != op || problem.operators[op].pass != Pass::Backward)
      continue;
    ends.erase(place);
    if (work <= kKeptStagesWork || isClosed() || !proceeds(0.9))
      return false;
    uint64_t spare = work - kKeptStagesWork;
    bool isBetter = tryStages(ends, kJoinShare, kWorthJoining, spare);
    work = kKeptStagesWork + spare;
    if (isBetter)
      return true;
  }
  return false;
}
