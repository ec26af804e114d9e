//===- Driver.cpp - driver of the search ----------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Driver.h"
#include "Tandem/Limits.h"
#include "Tandem/Phases/Exact.h"
#include <algorithm>
#include <cmath>

using namespace tandem::cost;
using namespace tandem::search;

static std::unique_ptr<ProblemSearch> makeDriver(const SearchProblem &problem,
                                                 const SearchOptions &options,
                                                 SearchEnd &end) {
  return std::make_unique<Driver>(problem, options, end);
}

Driver::Driver(const SearchProblem &problem, const SearchOptions &options,
               SearchEnd &end)
    : problem(problem), context(problem, options, end), pool(context.pool),
      guides(context), bound(context, guides), local(context),
      untimed(context, makeDriver), refiner(context, untimed) {}

//===----------------------------------------------------------------------===//
// What no plan does better
//===----------------------------------------------------------------------===//

/// Every plan holds what is resident, and what the backward pass needs of the
/// forward pass when it begins.
bool Driver::isImpossible(SearchResult &result) const {
  int64_t least = context.graph.getLeastBytes();
  if (least <= problem.memoryLimit)
    return false;
  result.isInfeasible = result.lacksMemory = true;
  result.leastBytes = least;
  result.error = "every plan holds at least " + std::to_string(least) +
                 " bytes on a device, " +
                 std::to_string(least - problem.memoryLimit) +
                 " more than the limit of " +
                 std::to_string(problem.memoryLimit) + describeNeed();
  return true;
}

/// The largest tensors that are always there.
std::string Driver::describeNeed() const {
  std::vector<std::pair<int64_t, unsigned>> sizes;
  for (unsigned tensor = 0; tensor < problem.tensors.size(); ++tensor) {
    const TensorFacts &info = context.facts.tensors[tensor];
    if (!context.graph.held.isHeld(tensor))
      continue;
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const Signature &signature : problem.getSignatures(info.producer))
      least = std::min(
          least, problem.getBytes(tensor, signature.results[info.result]));
    sizes.emplace_back(-least, tensor);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.resize(std::min<size_t>(sizes.size(), 3));
  std::string text = "; the largest tensors are";
  for (size_t i = 0; i < sizes.size(); ++i)
    text += (i ? ", '" : " '") + problem.tensors[sizes[i].second].name + "' (" +
            std::to_string(-sizes[i].first) + " bytes)";
  return sizes.empty() ? "" : text;
}

/// Every second of computation lies in a slot that is no shorter: a bound for
/// searches that end before a better one is known.
double Driver::getLeastComputation() const {
  double sum = 0;
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    if (context.facts.isArgument(op))
      continue;
    double least = std::numeric_limits<double>::infinity();
    for (const Signature &signature : problem.getSignatures(op)) {
      double strands = context.facts.isPerStrand(signature)
                           ? static_cast<double>(context.facts.numStrands)
                           : 1;
      least = std::min(least, strands * signature.seconds);
    }
    sum += least;
  }
  return sum;
}

//===----------------------------------------------------------------------===//
// Parts of the way
//===----------------------------------------------------------------------===//

/// The plans that are given, with better stages if there is time. Of those
/// whose forms are too large whatever the stages nothing is asked.
void Driver::offerStarts(PlanPool &to) const {
  for (const Plan &plan : context.options.starts)
    if (context.graph.getHeldBytes(plan.signatures) <= problem.memoryLimit)
      context.isOver() ? to.take(plan) : to.offer(plan);
}

/// Plans under all guides, within the memory limit. Values that are made again
/// free more than what prices of bytes find, which count at one place of the
/// step: these are for what sources do not make fit.
void Driver::searchByGuides() {
  guides.run();
  bool fits = pool.best.has_value();
  local.searchSources();
  if (!fits && local.seeksSources()) {
    offerStarts(pool);
    local.searchSources();
  }
  if (!pool.best || !local.seeksSources()) {
    guides.fitMemory();
    if (!pool.best)
      offerStarts(pool);
    local.searchSources();
  }
  local.makeFit();
  local.shrinkCheapest();
}

/// Better plans from where the given ones are, if that may lead somewhere.
void Driver::improveStart(PlanPool::Record started) {
  if (!started.plan)
    return;
  bool isNear = !pool.best || started.seconds <= pool.seconds * (1 + kNear);
  if (isNear && context.does(Mechanism::Starts) && context.seeksMore())
    local.improveFrom(*started.plan);
  pool.restore(std::move(started));
}

/// Looks at all plans that may be cheaper than the best one, if the work
/// suffices.
void Driver::searchExactly(uint64_t maxWork) {
  if (!context.does(Mechanism::Exact) || problem.operators.size() > kMaxExact ||
      !context.seeksMore() || context.isProven)
    return;
  ExactSearch exact(context, bound.getBestWeights(), maxWork);
  bool isComplete = exact.run();
  context.numNodes += exact.numNodes;
  if (!isComplete)
    return;
  // With a gap cheaper plans may be left.
  context.isProven = !pool.best || context.options.gap == 0;
  if (pool.best)
    context.raise(exact.getGoal());
}

/// Random changes, and all plans again, of which fewer may be cheaper than a
/// better one.
void Driver::anneal() {
  if (!context.seeksMore() || context.isProven ||
      problem.operators.size() > kMaxRefined)
    return;
  double before = pool.seconds;
  local.anneal();
  if (context.options.timeLimit > 0)
    searchExactly(kEndlessWork);
  else if (pool.seconds < before * (1 - kWorthProof))
    searchExactly(kExactWork);
}

std::optional<Plan> Driver::refine(const Plan &plan, uint64_t &work) {
  pool.forget();
  pool.offerDivided(plan, true);
  refiner.refine(work);
  return pool.best;
}

void Driver::explainNoPlan(SearchResult &result) const {
  result.isInfeasible = context.isProven;
  result.lacksMemory = pool.leastPeak < std::numeric_limits<int64_t>::max();
  if (!result.lacksMemory) {
    result.error = "no plan brings all tensors into the layouts that their "
                   "users accept";
    return;
  }
  result.smallestPeak = pool.leastPeak;
  result.smallest = pool.smallest;
  result.error =
      (context.isProven ? "no plan fits" : "found no plan that fits") +
      std::string(" into ") + std::to_string(problem.memoryLimit) +
      " bytes; the smallest one that was found exceeds the limit by " +
      std::to_string(pool.leastPeak - problem.memoryLimit) + " bytes" +
      describeNeed();
}

SearchResult Driver::finish() {
  SearchResult result;
  result.numVisited = pool.numPlans + context.numNodes;
  if (!pool.best) {
    explainNoPlan(result);
    return result;
  }
  if (!derive(problem, *pool.best, result.error))
    return result;
  Plan &plan = *pool.best;
  plan.lowerBound = std::min(std::max(context.lowerBound, 0.0), plan.cost);
  plan.isOptimal = plan.cost - plan.lowerBound <= kProven * plan.cost;
  if (plan.isOptimal)
    plan.lowerBound = plan.cost;
  result.plan = std::move(pool.best);
  return result;
}

//===----------------------------------------------------------------------===//
// The way
//===----------------------------------------------------------------------===//

PlanPool::Record Driver::runBriefly() {
  searchByGuides();
  refiner.searchAll();
  bound.searchSerialForms();
  return pool.forget();
}

/// With several strands a plan that splits nothing over time holds more: all
/// that it makes counts in whole stages.
void Driver::takeUntimed(const PlanPool::Record &record) {
  if (record.plan && record.seconds < pool.seconds)
    pool.take(*record.plan);
}

SearchResult Driver::run() {
  SearchResult impossible;
  if (isImpossible(impossible))
    return impossible;
  context.lowerBound = getLeastComputation() * (1 - kEqualCost);
  // Starts wait, and leave no trace: a search that begins with one, or with
  // guides by what they cost, may end with a worse plan.
  PlanPool given(context.facts, context.table);
  offerStarts(given);
  PlanPool::Record started = given.forget();
  if (started.plan && context.isOver()) {
    pool.restore(std::move(started));
    return finish();
  }
  untimed.start();
  PlanPool::Record inOneStrand;
  if (!context.graph.prepare([this] { return context.isOver(); })) {
    // The problem without a time axis is ready sooner.
    inOneStrand = untimed.join();
    takeUntimed(inOneStrand);
    pool.restore(started);
  }
  if (!pool.best)
    searchByGuides();
  bool goesOn = pool.best && context.proceeds(0.5);
  if (!goesOn && !inOneStrand.plan)
    inOneStrand = untimed.join();
  if (inOneStrand.plan && !pool.best)
    pool.offer(*inOneStrand.plan);
  if (pool.best && !goesOn && context.isOver()) {
    takeUntimed(inOneStrand);
    pool.restore(std::move(started));
    return finish();
  }
  refiner.searchAll();
  if (!context.isOver() && context.does(Mechanism::StrandsBound))
    bound.raise();
  if (context.does(Mechanism::Shrink) && local.hasTooLarge()) {
    bound.searchBestForms();
    local.shrinkCheapest();
  }
  context.graph.setWeights(Weights());
  if (context.seeksMore())
    local.improve(kFirstDescent);
  bound.join();
  if (!inOneStrand.plan)
    inOneStrand = untimed.join();
  bool isWorth = problem.operators.size() <= kMaxUntimed ||
                 inOneStrand.seconds < pool.seconds;
  if (inOneStrand.plan && isWorth && context.seeksMore())
    local.improveFrom(*inOneStrand.plan);
  searchExactly(kExactWork);
  anneal();
  takeUntimed(inOneStrand);
  improveStart(std::move(started));
  local.improveSources();
  if (context.does(Mechanism::Refine))
    refiner.refineLast();
  return finish();
}
