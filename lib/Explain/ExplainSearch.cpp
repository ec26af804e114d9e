//===- ExplainSearch.cpp - searches for other forms -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainForms.h"
#include "tandem/Search/Search.h"
#include <numeric>

using namespace tandem::cost;
using namespace tandem::explain;
using namespace tandem::search;

/// How often a search may ask whether to go on, before and in its exact part. A
/// limit of work, not of time: the same plan every time.
constexpr unsigned kMaxSteps = 300, kMaxExactSteps = 60;

namespace {
/// The signatures that are left, per group of tied operators.
class Remaining {
public:
  explicit Remaining(const PlanFacts &facts);

  /// Takes the layouts that the entry's tensors have in a plan from their
  /// producers and what is tied to them. False if nothing is left.
  bool forbid(const FormEntry &entry, const Plan &plan);
  /// The problem with what is left.
  SearchProblem restrict() const;
  /// The decisions of a plan of the restricted problem, in the whole one.
  void lift(Plan &plan) const;

private:
  const PlanFacts &facts;
  std::vector<unsigned> groupOf;
  std::vector<std::vector<unsigned>> allowed;
};
} // namespace

Remaining::Remaining(const PlanFacts &facts)
    : facts(facts), groupOf(facts.problem.operators.size()) {
  for (const std::vector<unsigned> &group : facts.problem.getTieGroups()) {
    for (unsigned op : group)
      groupOf[op] = allowed.size();
    allowed.emplace_back(facts.problem.getSignatures(group.front()).size());
    std::iota(allowed.back().begin(), allowed.back().end(), 0);
  }
}

bool Remaining::forbid(const FormEntry &entry, const Plan &plan) {
  for (unsigned tensor : entry.tensors) {
    const TensorFacts &info = facts.index.tensors[tensor];
    const SignatureSet &all = facts.problem.getSignatures(info.producer);
    const Layout &layout = facts.index.getProduced(plan.signatures, tensor);
    std::vector<unsigned> &left = allowed[groupOf[info.producer]];
    std::erase_if(left, [&](unsigned index) {
      return all[index].results[info.result] == layout;
    });
    if (left.empty())
      return false;
  }
  return true;
}

SearchProblem Remaining::restrict() const {
  SearchProblem problem = facts.problem;
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    const SignatureSet &all = facts.problem.getSignatures(op);
    const std::vector<unsigned> &left = allowed[groupOf[op]];
    if (left.size() == all.size())
      continue;
    SignatureSet set;
    for (unsigned index : left)
      set.push_back(all[index]);
    problem.operators[op].signatureSet = problem.signatureSets.size();
    problem.signatureSets.push_back(std::move(set));
  }
  return problem;
}

void Remaining::lift(Plan &plan) const {
  for (unsigned op = 0; op < plan.signatures.size(); ++op)
    plan.signatures[op] = allowed[groupOf[op]][plan.signatures[op]];
}

static std::optional<Plan> findPlan(const SearchProblem &problem,
                                    SearchEnd &end) {
  bool isByStages = isSearchedByStages(problem);
  SearchOptions options;
  unsigned steps = 0, exactSteps = 0;
  options.progress = [&](double done, double, double) {
    if (!end.proceeds())
      return false;
    return isByStages ||
           (done < 0.9 ? ++steps < kMaxSteps : ++exactSteps < kMaxExactSteps);
  };
  return searchTandem(problem, options).plan;
}

bool tandem::explain::searchChoices(PlanFacts &facts, SearchEnd &end,
                                    const FormEntry &entry, MetPlans &plans) {
  if (!end.proceeds())
    return false;
  Remaining remaining(facts);
  std::optional<Plan> plan = facts.plan;
  for (unsigned round = 0; round < 2 && end.proceeds(); ++round) {
    if (!remaining.forbid(entry, *plan))
      break;
    SearchProblem problem = remaining.restrict();
    plan = findPlan(problem, end);
    if (!plan) {
      // What it would take.
      problem.memoryLimit = kNoLimit;
      plan = findPlan(problem, end);
    }
    if (!plan)
      break;
    remaining.lift(*plan);
    Choice totals = describePlan(facts, *plan);
    totals.isSearched = !end.isOver();
    plans.add(plan->signatures, totals, entry);
  }
  return true;
}
