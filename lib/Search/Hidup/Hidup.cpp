//===- Hidup.cpp - the search of HiDup ------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HidupWalk.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;
using namespace tandem::search::hidup;

/// What no plan undercuts: the computation of each operator counts at least
/// four times (in max(F, f), twice in the backward pass, and as the last F or
/// the next D).
static double getComputationBound(const SearchProblem &problem) {
  double bound = 0;
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    double least = std::numeric_limits<double>::infinity();
    for (const Signature &signature : problem.getSignatures(op))
      least = std::min(least, signature.seconds);
    bound += 4 * least;
  }
  return bound;
}

/// The better of the plan found and those to start from.
static std::optional<Plan> chooseBest(const SearchProblem &problem,
                                      std::optional<Plan> found,
                                      const std::vector<Plan> &starts,
                                      std::string &error) {
  if (found && !derive(problem, *found, error))
    return std::nullopt;
  for (Plan start : starts) {
    std::string reason;
    if (derive(problem, start, reason) && (!found || start.cost < found->cost))
      found = std::move(start);
  }
  return found;
}

static std::string describeDeadEnd(const SearchProblem &problem,
                                   unsigned lastOperator, bool isExact) {
  std::string name = problem.operators[lastOperator].name;
  if (!isExact)
    return "no plan was found in the given time and memory: those that were "
           "not dropped do not get past operator " +
           name;
  return "there is no plan: whatever signatures are chosen, operator " + name +
         " or a reader of its results lacks a form that it wants (a tensor has "
         "at most one copy)";
}

namespace {
/// What the walks over a problem found.
struct Outcome {
  std::optional<Plan> plan;
  /// Of the plan, and of what was dropped.
  Time value = kNever, bound = kNever;
  bool isExact = true;
  unsigned lastOperator = 0;
  uint64_t numVisited = 0;
};
} // namespace

/// A second walk with more labels, that only looks for better plans.
static void searchOn(const Model &model, SearchEnd &end, Outcome &outcome) {
  Walk walk(model, end, kThorough, outcome.value);
  std::optional<Plan> plan = walk.run();
  outcome.numVisited += walk.getNumVisited();
  if (plan) {
    outcome.plan = std::move(plan);
    outcome.value = walk.getValueFound();
  } else if (walk.wasInterrupted()) {
    return;
  }
  outcome.isExact = walk.isExact();
  outcome.bound = walk.getBound();
  outcome.lastOperator = walk.getLastOperator();
}

static Outcome walkOver(const Model &model, const SearchOptions &options) {
  SearchEnd end(options);
  Walk walk(model, end, kQuick, kNever);
  Outcome outcome;
  outcome.plan = walk.run();
  if (outcome.plan)
    outcome.value = walk.getValueFound();
  outcome.bound = walk.getBound();
  outcome.isExact = walk.isExact();
  outcome.lastOperator = walk.getLastOperator();
  outcome.numVisited = walk.getNumVisited();
  double gap = double(outcome.value - std::min(outcome.bound, outcome.value)) /
               std::max<Time>(outcome.value, 1);
  if (!walk.isExact() && !walk.wasInterrupted() && gap > options.gap)
    searchOn(model, end, outcome);
  return outcome;
}

SearchResult tandem::search::searchHidup(const SearchProblem &problem,
                                         const SearchOptions &options) {
  SearchResult result;
  if (!isSearchedByStages(problem)) {
    result.error = "the problem has the accounting " +
                   std::string(getAccountingName(problem.accounting)) +
                   ", the search hidup expects hidup-serial or "
                   "hidup-overlapped";
    return result;
  }
  std::optional<Model> model = makeModel(problem, result.error);
  if (!model)
    return result;
  Outcome outcome = walkOver(*model, options);
  result.numVisited = outcome.numVisited;
  result.isInfeasible = !outcome.plan && outcome.isExact;
  result.plan = chooseBest(problem, std::move(outcome.plan), options.starts,
                           result.error);
  if (!result.plan) {
    if (result.error.empty())
      result.error =
          describeDeadEnd(problem, outcome.lastOperator, outcome.isExact);
    return result;
  }
  double cost = result.plan->cost;
  double bound = outcome.isExact ? cost : outcome.bound * model->secondsPerUnit;
  bound = std::max(bound, getComputationBound(problem));
  result.plan->lowerBound = std::min(cost, bound);
  result.plan->isOptimal = isProven(cost, result.plan->lowerBound);
  return result;
}
