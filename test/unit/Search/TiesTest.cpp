//===- TiesTest.cpp - choice among plans of equal cost --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Improve/Ties.h"
#include "RandomProblem.h"
#include "tandem/Search/Search.h"
#include "gtest/gtest.h"

using namespace tandem;
using namespace tandem::cost;
using namespace tandem::cost::test;
using namespace tandem::search;

/// What is sent takes next to no time, so that many plans cost the same.
static SearchProblem makeFastLinks(uint64_t seed) {
  SearchProblem problem = makeRandomProblem(seed, {.maxPlans = 2000});
  for (Axis &axis : problem.axes)
    axis.rates.fill({1e-30, 0});
  return problem;
}

/// What is stored as it is read: parameters and states, with what is tied to
/// each.
static std::vector<std::vector<unsigned>>
getStored(const SearchProblem &problem) {
  std::vector<std::vector<unsigned>> groups;
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    if (problem.operators[op].kind != Operator::Kind::Resident)
      continue;
    groups.push_back({op});
    for (auto [first, second] : problem.ties)
      if (first == op || second == op)
        groups.back().push_back(first == op ? second : first);
  }
  return groups;
}

namespace {
struct Equals {
  /// Plans that cost the same and differ in how one tensor is stored.
  unsigned number = 0, numSmaller = 0;
};
} // namespace

/// What decides among equal plans: collectives, peak, resident bytes.
static std::array<int64_t, 3> getHeld(const SearchProblem &problem,
                                      const Plan &plan,
                                      const CostReport &report,
                                      ChangeTable &table) {
  int64_t numCollectives = 0;
  for (const CopyChange &change : report.changes) {
    const ChangeCost &cost =
        table.getCost(change.copy.tensor, change.from, change.copy.layout);
    numCollectives +=
        (cost.collectiveOnce != std::array<double, kMaxAxes>()) +
        problem.getNumStrands() *
            (cost.collectivePerStrand != std::array<double, kMaxAxes>());
  }
  return {numCollectives, report.peak,
          getResidentBytes(problem, plan.signatures)};
}

static void addEquals(const SearchProblem &problem, const Plan &plan,
                      Equals &equals) {
  ChangeTable table(problem);
  std::string error;
  auto held = getHeld(problem, plan,
                      *tandem::cost::cost(problem, plan, table, error), table);
  for (const std::vector<unsigned> &group : getStored(problem))
    for (unsigned value = 0;
         value < problem.getSignatures(group.front()).size(); ++value) {
      Plan other = plan;
      for (unsigned op : group)
        other.signatures[op] = value;
      std::optional<CostReport> report =
          tandem::cost::cost(problem, other, table, error);
      if (other.signatures == plan.signatures || !report ||
          report->peak > problem.memoryLimit ||
          report->seconds > plan.cost * (1 + 1e-13))
        continue;
      ++equals.number;
      equals.numSmaller += getHeld(problem, other, *report, table) < held;
    }
}

/// Of equal plans one with few collectives, a small peak, and whose parameters
/// hold little: no other form of a parameter or state is better at that.
TEST(TiesTest, noEqualPlanHoldsLess) {
  Equals equals;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SearchProblem problem = makeFastLinks(seed);
    SearchResult result = searchTandem(problem, {});
    ASSERT_TRUE(result.plan) << seed << ": " << result.error;
    std::string error;
    ASSERT_TRUE(verifyPlan(problem, *result.plan, error)) << seed << error;
    EXPECT_TRUE(result.plan->isOptimal) << seed;
    addEquals(problem, *result.plan, equals);
  }
  EXPECT_GT(equals.number, 50u);
  EXPECT_EQ(equals.numSmaller, 0u) << "of " << equals.number;
}
