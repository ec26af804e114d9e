//===- RandomPlan.cpp - random legal plans --------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomPlan.h"
#include <algorithm>
#include <set>

using namespace tandem::cost;
using namespace tandem::cost::test;

static bool isLegal(const SearchProblem &problem, const Plan &plan,
                    ChangeTable &table) {
  std::string error;
  return cost(problem, plan, table, error).has_value();
}

/// Signatures whose operands can be brought to what they want, operator by
/// operator. False at a dead end.
static bool drawSignatures(const SearchProblem &problem, ChangeTable &table,
                           Random &random, Plan &plan) {
  std::vector<Layout> layouts(problem.tensors.size());
  plan.signatures.assign(problem.operators.size(), ~0u);
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    const Operator &info = problem.operators[op];
    const SignatureSet &set = problem.getSignatures(op);
    std::vector<unsigned> possible;
    for (unsigned i = 0; i < set.size(); ++i) {
      bool isPossible = plan.signatures[op] == ~0u || plan.signatures[op] == i;
      for (size_t k = 0; k < info.operands.size(); ++k)
        isPossible &= table
                          .getCost(info.operands[k], layouts[info.operands[k]],
                                   set[i].operands[k])
                          .isPossible;
      if (isPossible)
        possible.push_back(i);
    }
    if (possible.empty())
      return false;
    unsigned choice = plan.signatures[op] = random.pick(possible);
    for (auto [a, b] : problem.ties)
      if (a == op || b == op)
        plan.signatures[a] = plan.signatures[b] = choice;
    for (size_t k = 0; k < info.results.size(); ++k)
      layouts[info.results[k]] = set[choice].results[k];
  }
  return true;
}

/// One stage for each operator that is no argument.
static std::vector<unsigned> getFinest(const SearchProblem &problem) {
  std::vector<unsigned> ends;
  for (unsigned op = 1; op < problem.operators.size(); ++op)
    if (!problem.operators[op].operands.empty())
      ends.push_back(op);
  ends.push_back(problem.operators.size());
  return ends;
}

static void removeCuts(const SearchProblem &problem, ChangeTable &table,
                       Random &random, Plan &plan) {
  double share = random.real();
  for (size_t i = plan.stageEnds.size() - 1; i-- > 0;) {
    if (!random.chance(share))
      continue;
    unsigned end = plan.stageEnds[i];
    plan.stageEnds.erase(plan.stageEnds.begin() + i);
    if (!isLegal(problem, plan, table))
      plan.stageEnds.insert(plan.stageEnds.begin() + i, end);
  }
}

/// Adds each of some copies to the kept or the waiting ones, if that is legal.
static void addCopies(const SearchProblem &problem, ChangeTable &table,
                      Random &random, Plan &plan) {
  std::string error;
  std::optional<CostReport> report = cost(problem, plan, table, error);
  double share = random.real();
  for (const CopyChange &change : report->changes) {
    if (!random.chance(share))
      continue;
    std::vector<Copy> &list =
        change.copy.pass == Pass::Update ? plan.waiting : plan.kept;
    std::vector<Copy> before = list;
    list.insert(std::lower_bound(list.begin(), list.end(), change.copy),
                change.copy);
    if (!isLegal(problem, plan, table))
      list = before;
  }
}

/// Some of the stages that may run ahead.
static void addAhead(const SearchProblem &problem, ChangeTable &table,
                     Random &random, Plan &plan) {
  std::vector<unsigned> ahead;
  for (unsigned stage : listAheadable(problem, plan, table))
    if (random.chance(0.7))
      ahead.push_back(stage);
  plan.ahead = std::move(ahead);
}

std::optional<Plan> test::makeRandomPlan(const SearchProblem &problem,
                                         ChangeTable &table, Random &random) {
  constexpr unsigned kAttempts = 20;
  for (unsigned i = 0; i < kAttempts; ++i) {
    Plan plan;
    plan.stageEnds = getFinest(problem);
    if (!drawSignatures(problem, table, random, plan) ||
        !isLegal(problem, plan, table))
      continue;
    if (random.chance(0.3))
      removeCuts(problem, table, random, plan);
    if (random.chance(0.5))
      addCopies(problem, table, random, plan);
    addAhead(problem, table, random, plan);
    return plan;
  }
  return std::nullopt;
}

std::vector<std::vector<unsigned>>
test::getNeighbours(const SearchProblem &problem,
                    const std::vector<unsigned> &stageEnds) {
  unsigned count = problem.operators.size();
  std::set<unsigned> cuts(stageEnds.begin(), stageEnds.end());
  std::set<std::set<unsigned>> result;
  for (unsigned cut = 1; cut < count; ++cut) {
    std::set<unsigned> other = cuts;
    if (!other.erase(cut))
      other.insert(cut);
    result.insert(other);
    if (!cuts.count(cut))
      continue;
    for (unsigned moved : {cut - 1, cut + 1})
      if (moved > 0 && moved < count && !cuts.count(moved)) {
        std::set<unsigned> shifted = other;
        shifted.insert(moved);
        result.insert(shifted);
      }
  }
  std::vector<std::vector<unsigned>> divisions;
  for (const std::set<unsigned> &division : result)
    divisions.emplace_back(division.begin(), division.end());
  return divisions;
}
