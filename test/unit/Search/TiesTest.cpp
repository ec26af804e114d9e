//===- TiesTest.cpp - one of many plans that cost the same ----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomProblem.h"
#include "TandemTies.h"
#include "tandem/Search/Exhaustive.h"
#include "gtest/gtest.h"

using namespace tandem;
using namespace tandem::cost;
using namespace tandem::cost::test;
using namespace tandem::search;

/// Nothing that is sent takes time, so that many plans cost the same.
static SearchProblem makeFreeLinks(uint64_t seed) {
  RandomOptions options;
  options.maxPlans = 2000;
  SearchProblem problem = makeRandomProblem(seed, options);
  for (Axis &axis : problem.axes)
    axis.rates = {};
  return problem;
}

namespace {
/// What plans of the least cost hold.
struct Ties {
  double cost = INFINITY;
  int64_t least = 0, most = 0;
};
} // namespace

static Ties findTies(const SearchProblem &problem) {
  Ties ties;
  auto visit = [&](const Plan &plan, const CostReport &report) {
    if (report.peak > problem.memoryLimit ||
        report.seconds > ties.cost * (1 + 1e-12))
      return true;
    int64_t bytes = getResidentBytes(problem, plan);
    if (report.seconds < ties.cost * (1 - 1e-12))
      ties = {report.seconds, bytes, bytes};
    ties.least = std::min(ties.least, bytes);
    ties.most = std::max(ties.most, bytes);
    return true;
  };
  uint64_t numVisited;
  std::string error;
  return enumeratePlans(problem, 60'000, visit, numVisited, error) ? ties
                                                                   : Ties();
}

/// Of equal plans the one that holds least, in nearly all of the problems in
/// which it matters.
TEST(TiesTest, plansThatCostTheSameHoldLeast) {
  unsigned numTied = 0, numLeast = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    SearchProblem problem = makeFreeLinks(seed);
    Ties ties = findTies(problem);
    if (ties.least == ties.most)
      continue;
    SearchResult result = searchTandem(problem, {});
    ASSERT_TRUE(result.plan) << seed << ": " << result.error;
    std::string error;
    ASSERT_TRUE(verifyPlan(problem, *result.plan, error)) << seed << error;
    EXPECT_TRUE(result.plan->isOptimal) << seed;
    EXPECT_LE(result.plan->cost, ties.cost * (1 + 2e-12)) << seed;
    ++numTied;
    numLeast += getResidentBytes(problem, *result.plan) == ties.least;
  }
  std::printf("%u of %u problems: the plan that holds least\n", numLeast,
              numTied);
  EXPECT_GT(numTied, 20u);
  EXPECT_GE(numLeast, numTied * 95 / 100);
}
