//===- Local.cpp - local search -------------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Phases/Local.h"
#include "Tandem/Limits.h"
#include <algorithm>
#include <utility>

using namespace tandem::cost;
using namespace tandem::search;

LocalSearch::LocalSearch(SearchContext &context)
    : context(context), problem(context.problem), pool(context.pool),
      leaders(context.leaders),
      improver(context.graph, context.table, context.repeats),
      sources(context.facts, context.table) {}

uint64_t LocalSearch::getWork(uint64_t share) const {
  uint64_t numOperators = problem.operators.size();
  return std::min(kWorkPerOperator * numOperators,
                  kSmallWork / (numOperators + 1)) /
         share;
}

/// Small changes and new stages in turn, as long as that helps. The best plan
/// of all that come is in the pool, the one that this led to is `offered`.
void LocalSearch::descend(const Plan &plan, bool isCareful, uint64_t &work) {
  auto mayGoOn = [this] { return context.proceeds(0.6); };
  PlanImprover::Reach reach = isCareful && context.does(Mechanism::Neighbours)
                                  ? PlanImprover::Reach::Neighbours
                                  : PlanImprover::Reach::Units;
  Plan now = plan;
  double before = std::numeric_limits<double>::infinity();
  if (!context.does(Mechanism::Descent)) {
    pool.offerDivided(now, isCareful);
    return;
  }
  while (work > 0 && !context.isOver()) {
    now = improver.improve(now, reach, work, mayGoOn);
    double after = pool.offerDivided(now, isCareful);
    work -= std::min<uint64_t>(work, kDivideWork * problem.operators.size());
    if (!pool.offered.plan || after >= before * (1 - kProven))
      return;
    before = after;
    now = *pool.offered.plan;
  }
}

void LocalSearch::improve(uint64_t share) {
  if (!pool.best)
    return;
  uint64_t work = getWork(share), last = work / kLastShare;
  work -= last;
  descend(Plan(*pool.best), false, work);
  last += work;
  if (context.seeksMore())
    descend(Plan(*pool.best), true, last);
}

void LocalSearch::improveFrom(const Plan &plan) {
  PlanPool::Record best = pool.forget();
  pool.offer(plan);
  improve(kDescent);
  context.addLeader({pool.best, pool.seconds});
  pool.restore(std::move(best));
}

//===----------------------------------------------------------------------===//
// Random changes
//===----------------------------------------------------------------------===//

/// Random changes from a plan, if there is heat, and small ones behind them;
/// the best of all that come.
PlanPool::Record LocalSearch::change(PlanPool::Record from, double heat,
                                     uint64_t work) {
  if (context.isOver() || !from.plan)
    return from;
  auto mayGoOn = [this] { return context.proceeds(0.8); };
  PlanPool::Record best = pool.forget();
  Plan plan = *from.plan;
  if (heat > 0 && context.does(Mechanism::Anneal)) {
    auto random = static_cast<uint64_t>(kRandomShare * double(work));
    work -= random;
    double numOperators = static_cast<double>(problem.operators.size());
    heat *= std::max(1.0, kHeatOperators / numOperators);
    plan = improver.anneal(plan, heat, random, mayGoOn);
  }
  descend(plan, heat == 0, work);
  pool.restore(std::move(from));
  std::swap(best, from);
  best = pool.forget();
  pool.restore(std::move(from));
  return best;
}

/// Sorts plans, the best one first, and leaves so many, of each cost one.
void LocalSearch::selectLeaders(size_t count) {
  std::stable_sort(leaders.begin(), leaders.end(),
                   [](const PlanPool::Record &a, const PlanPool::Record &b) {
                     return a.seconds < b.seconds;
                   });
  auto isEqual = [](const PlanPool::Record &a, const PlanPool::Record &b) {
    return a.seconds == b.seconds;
  };
  leaders.erase(std::unique(leaders.begin(), leaders.end(), isEqual),
                leaders.end());
  leaders.resize(std::min(leaders.size(), count));
}

/// Of several leaders, all descend; the better half is changed at random, until
/// one is left, which goes on for some rounds.
void LocalSearch::annealAll(uint64_t work) {
  leaders.push_back({pool.best, pool.seconds});
  selectLeaders(kMaxLeaders);
  double heat = 0;
  while (leaders.size() > 1) {
    uint64_t share = work / kLeadersShare / leaders.size();
    for (PlanPool::Record &leader : leaders)
      leader = change(std::move(leader), heat, share);
    heat = kHeats.front();
    selectLeaders(leaders.size() / 2);
  }
  PlanPool::Record best = std::move(leaders.front());
  leaders.clear();
  double numOperators = static_cast<double>(problem.operators.size());
  double numRounds = kRounds * std::max(1.0, kHeatOperators / numOperators);
  for (unsigned round = 0; round < numRounds && !context.isClosed(); ++round)
    best = change(std::move(best), kHeats[round % kHeats.size()],
                  work / kRoundsShare / kRounds);
  pool.restore(std::move(best));
}

void LocalSearch::anneal() {
  if (!pool.best)
    return;
  annealAll(getWork(1));
  improve(kDescent);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

bool LocalSearch::hasTooLarge() const {
  return pool.best && !context.isOver() && !context.facts.isLarge() &&
         pool.leastSeconds < pool.seconds * (1 - kWorthShrinking);
}

/// Where sources are chosen, the cheapest plan was made to fit by them.
void LocalSearch::shrinkCheapest() {
  if (!hasTooLarge() || !context.does(Mechanism::Shrink) || seeksSources())
    return;
  Plan from = *pool.cheapest;
  PlanPool::Record best = pool.forget();
  uint64_t work = getWork(kDescent);
  descend(from, false, work);
  pool.restore(std::move(best));
}

bool LocalSearch::seeksSources() const {
  return sources.hasChoices() && context.does(Mechanism::Sources) &&
         problem.memoryLimit < kNoLimit && !context.isOver();
}

void LocalSearch::searchSourcesOf(const std::optional<Plan> &plan,
                                  bool isBrief) {
  if (!plan)
    return;
  uint64_t work = getWork(kSourcesShare);
  auto mayGoOn = [this] { return context.proceeds(0.4); };
  Plan from = *plan;
  pool.offerDivided(sources.search(from, work, isBrief, mayGoOn), false);
}

void LocalSearch::searchSources() {
  if (!seeksSources())
    return;
  std::optional<Plan> best = pool.best;
  if (pool.leastSeconds < pool.seconds * (1 - kProven))
    searchSourcesOf(pool.cheapest, false);
  // Large problems get there by one way.
  if (!pool.best || problem.operators.size() <= kMaxRefined)
    searchSourcesOf(best ? best : pool.smallest, false);
}

void LocalSearch::improveSources() {
  if (seeksSources() && context.seeksMore())
    searchSourcesOf(pool.best, true);
}

void LocalSearch::makeFit() {
  if (!context.does(Mechanism::MakeFit))
    return;
  auto mayGoOn = [this] { return context.proceeds(0.4); };
  for (unsigned round = 0; round < kRounds; ++round) {
    if (pool.best || !pool.smallest || context.isOver())
      return;
    uint64_t work = getWork(kRounds);
    Plan plan = *pool.smallest;
    if (round > 0)
      plan = improver.anneal(plan, kLargeHeat, work, mayGoOn);
    work = getWork(kRounds);
    descend(plan, true, work);
    if (seeksSources())
      searchSourcesOf(pool.smallest, false);
  }
}
