//===- UntimedSearch.cpp - a search without a time axis -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Phases/UntimedSearch.h"
#include "Tandem/Limits.h"

using namespace tandem::cost;
using namespace tandem::search;

UntimedSearch::UntimedSearch(SearchContext &context, MakeSearch makeSearch)
    : context(context), makeSearch(std::move(makeSearch)) {}

void UntimedSearch::start() {
  untimed = dropTime(context.problem);
  if (!untimed || !context.does(Mechanism::Untimed)) {
    untimed.reset();
    return;
  }
  options.gap = context.options.gap;
  options.without = context.options.without;
  for (const Plan &start : context.options.starts)
    if (std::optional<Plan> plan = untimed->lower(start))
      options.starts.push_back(std::move(*plan));
  isApart = context.getNumOperators() > kMaxExact;
  options.progress = [this](double done, double, double) {
    return isApart ? !context.isOver() : context.proceeds(0.4 + 0.1 * done);
  };
  end.emplace(options);
  auto policy = isApart ? std::launch::async : std::launch::deferred;
  found = std::async(policy, [this] { return findPlan(); });
}

PlanPool::Record UntimedSearch::findPlan() {
  const SearchProblem &problem = untimed->problem;
  search = makeSearch(problem, options, *end);
  PlanPool::Record best;
  if (problem.operators.size() > kMaxUntimed)
    best = search->runBriefly();
  else if (SearchResult result = search->run(); result.plan)
    best = {result.plan, result.plan->cost};
  if (best.plan)
    best.plan = untimed->lift(*best.plan);
  return best;
}

PlanPool::Record UntimedSearch::join() {
  if (!found.valid())
    return {};
  context.wait(found);
  isApart = false;
  return found.get();
}

bool UntimedSearch::refine() {
  std::optional<Plan> lowered;
  if (untimed)
    lowered = untimed->lower(*context.pool.best);
  if (!lowered)
    return false;
  uint64_t numBest = context.pool.numBest;
  if (std::optional<Plan> refined = search->refine(*lowered, work))
    context.pool.offerDivided(untimed->lift(*refined), true);
  return context.pool.numBest != numBest;
}

bool UntimedSearch::addsUpFor(const Plan &plan) const {
  return untimed && search->addsUp() && untimed->lower(plan);
}
