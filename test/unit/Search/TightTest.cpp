//===- TightTest.cpp - little memory and given stages ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomProblem.h"
#include "tandem/Search/Search.h"
#include <gtest/gtest.h>

using namespace tandem::cost;
using namespace tandem::cost::test;
using namespace tandem::search;

static SearchProblem makeProblem(uint64_t seed, uint64_t maxPlans) {
  auto kind = static_cast<RandomOptions::Kind>(seed % 4);
  return makeRandomProblem(seed, {.kind = kind, .maxPlans = maxPlans});
}

/// The least limit under which the exhaustive search finds a plan, to a byte.
static int64_t findSmallestPeak(SearchProblem problem, int64_t high) {
  int64_t low = 0;
  while (high - low > 1) {
    problem.memoryLimit = low + (high - low) / 2;
    if (auto found = searchExhaustive(problem, {}); found.plan)
      high = found.plan->peak;
    else
      low = problem.memoryLimit;
  }
  return high;
}

/// At and below the smallest peak, and on the way to the optimum's: a plan
/// whenever there is one, and as cheap as the oracle's.
TEST(TightTest, plansAreFoundUpToTheSmallestPeak) {
  unsigned numBinding = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SearchProblem problem = makeProblem(seed, 500);
    SearchResult free = searchExhaustive(problem, {});
    ASSERT_TRUE(free.plan);
    int64_t least = findSmallestPeak(problem, free.plan->peak);
    numBinding += least < free.plan->peak;
    double before = std::numeric_limits<double>::infinity();
    for (unsigned step = 0; step <= 3; ++step) {
      problem.memoryLimit = least + (free.plan->peak - least) * step / 3;
      SearchResult oracle = searchExhaustive(problem, {});
      SearchResult found = searchTandem(problem, {});
      ASSERT_TRUE(oracle.plan && found.plan)
          << "seed " << seed << ", limit " << problem.memoryLimit << ": "
          << found.error;
      EXPECT_NEAR(found.plan->cost, oracle.plan->cost, 1e-9 * oracle.plan->cost)
          << "seed " << seed << ", limit " << problem.memoryLimit;
      EXPECT_LE(found.plan->cost, before * (1 + 1e-9));
      before = found.plan->cost;
    }
    problem.memoryLimit = least - 1;
    EXPECT_FALSE(searchTandem(problem, {}).plan) << "seed " << seed;
  }
  EXPECT_GT(numBinding, 5u);
}

/// With the stages of tandem's plan the integer program finds no cheaper one.
TEST(TightTest, ilpIsNotCheaperWithTheSameStages) {
  unsigned numStages = 0, numProven = 0;
  for (uint64_t seed = 100; seed < 140; ++seed) {
    SearchProblem problem = makeProblem(seed, 20'000);
    SearchResult found = searchTandem(problem, {});
    ASSERT_TRUE(found.plan) << found.error;
    SearchOptions options;
    options.stageEnds = found.plan->stageEnds;
    SearchResult ilp = searchIlp(problem, options);
    ASSERT_TRUE(ilp.plan) << "seed " << seed << ": " << ilp.error;
    EXPECT_NEAR(ilp.plan->cost, found.plan->cost, 1e-6 * found.plan->cost)
        << "seed " << seed;
    numStages += found.plan->stageEnds.size();
    numProven +=
        ilp.stagesBound && *ilp.stagesBound >= ilp.plan->cost * (1 - 1e-6);
  }
  EXPECT_GT(numStages, 200u);
  EXPECT_GT(numProven, 30u);
}
