//===- Refine.cpp - the cheapest forms for given stages -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Phases/Refine.h"
#include "Tandem/Improve/Ties.h"
#include "Tandem/Limits.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

/// A limit of time, where one is given, is the only one.
uint64_t StageRefiner::getWork(uint64_t work) const {
  return context.options.timeLimit > 0
             ? kEndlessWork
             : getSumWork(work, context.getNumOperators());
}

void StageRefiner::searchAll() {
  if (context.isClosed() || !context.addsUp)
    return;
  SumLimits limits;
  limits.maxWork = getWork(problem.pieceLatency > 0 ? kSumBoundWork : kSumWork);
  double gap = context.options.gap;
  limits.gap = std::max(kProven / 2, gap / (1 + gap));
  limits.takes = [&](const Plan &plan) {
    pool.offer(plan);
    return pool.seconds;
  };
  limits.proceeds = [&](double least) {
    context.raise(least);
    return context.proceeds(0.5) && !context.isClosed();
  };
  if (!context.does(Mechanism::Branching))
    limits.maxNodes = 1;
  limits.upperBound = pool.seconds * (1 + kProven);
  std::vector<unsigned> start;
  if (pool.best)
    start = pool.best->signatures;
  SumResult sums = searchSums(context.facts, context.table, start, limits);
  context.raise(sums.bound);
  context.numNodes += sums.numNodes;
}

//===----------------------------------------------------------------------===//
// Given stages
//===----------------------------------------------------------------------===//

/// Where memory is scarce the cheapest forms of given stages need not fit.
/// Where pieces cost nothing, larger stages gain nothing. With little work
/// tables are too large.
bool StageRefiner::hasExactForms(uint64_t work) const {
  bool isAmple = pool.leastSeconds >= pool.seconds * (1 - kProven);
  return isAmple && work > workTooLittle &&
         context.getNumOperators() <= kMaxRefined && problem.pieceLatency > 0 &&
         context.addsUp;
}

/// Cheaper forms for the best plan's stages, and what better stages make of
/// them; true if that is a better plan. `work` is what is left of it. Where the
/// stages change with the forms, the search goes on from there.
bool StageRefiner::tryCheapestForms(uint64_t &work) {
  if (!context.addsUp)
    return untimed.refine();
  if (!context.does(Mechanism::GivenStages) || !hasExactForms(work))
    return false;
  uint64_t numBest = pool.numBest;
  SumLimits limits;
  limits.stageEnds = pool.best->stageEnds;
  auto isLeft = [&] {
    return pool.numBest != numBest && pool.best->stageEnds != limits.stageEnds;
  };
  limits.maxWork = work;
  if (!context.does(Mechanism::Branching))
    limits.maxNodes = 1;
  limits.gap = kStagesGap;
  limits.upperBound = pool.seconds;
  double &bound = stageBounds[limits.stageEnds];
  if (bound >= limits.upperBound * (1 - kStagesGap))
    return false;
  limits.takes = [&](const Plan &plan) {
    pool.offerDivided(plan, true);
    return pool.seconds;
  };
  limits.proceeds = [&](double) { return !isLeft() && mayGoOn(); };
  SumResult sums = searchSums(context.facts, context.table,
                              std::vector(pool.best->signatures), limits);
  bound = std::max(bound, sums.bound);
  if (sums.isTooLarge)
    workTooLittle = std::max(workTooLittle, limits.maxWork);
  work -= std::min(work, sums.work);
  context.numNodes += sums.numNodes;
  return pool.numBest != numBest;
}

//===----------------------------------------------------------------------===//
// In turn
//===----------------------------------------------------------------------===//

/// Other forms of the best plan that cost the same, and the cuts that these
/// want; true if that is a better plan.
bool StageRefiner::tryTies() {
  if (!context.does(Mechanism::Ties))
    return false;
  Plan plan = *pool.best;
  std::string error;
  if (!derive(problem, plan, error))
    return false;
  auto mayGoOn = [this] { return this->mayGoOn(); };
  Plan settled = plan;
  settleTies(problem, settled, mayGoOn);
  if (settled == plan)
    return false;
  PlanPool::Record before = pool.forget();
  pool.offerDivided(settled, true);
  bool isBetter = pool.seconds < before.seconds;
  pool.restore(std::move(before));
  return isBetter;
}

void StageRefiner::refine(uint64_t &work) {
  if (!pool.best || context.isProven || context.getNumOperators() > kMaxRefined)
    return;
  while (mayGoOn() && (tryTies() || tryCheapestForms(work)))
    continue;
}

/// Removes cuts that gain nothing, and sees to it that no other forms are
/// cheaper without them.
void StageRefiner::settleStages() {
  if (!pool.best || context.isProven || !context.seeksMore() ||
      !(context.addsUp || untimed.addsUpFor(*pool.best)))
    return;
  pool.dropCuts();
  uint64_t work = getWork(kSettledWork);
  refine(work);
  pool.dropCuts();
}

void StageRefiner::refineLast() {
  uint64_t work = getWork(kStagesWork);
  refine(work);
  if (context.does(Mechanism::Settle))
    settleStages();
}
