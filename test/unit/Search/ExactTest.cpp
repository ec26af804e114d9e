//===- ExactTest.cpp - all plans of small problems ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Phases/Exact.h"
#include "RandomProblem.h"
#include "Tandem/Limits.h"
#include "Tandem/Relaxation/Fold.h"
#include "Transformer.h"
#include "Trial.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace tandem;
using namespace tandem::cost;
using namespace tandem::cost::test;
using namespace tandem::search;

static Weights getWeights(const SearchProblem &problem) {
  return getBoundWeights(problem, 0.25, 0.75);
}

/// No other part of the search helps: there is no plan to begin with.
TEST(ExactTest, findsTheOptimumByItself) {
  unsigned number = 0, numImpossible = 0;
  for (const Trial &trial : getTrials()) {
    if (number++ % 32 > 0 && std::isfinite(trial.optimum))
      continue;
    SearchOptions options;
    SearchEnd end(options);
    SearchContext context(trial.problem, options, end);
    ExactSearch exact(context, getWeights(trial.problem), kEndlessWork);
    ASSERT_TRUE(exact.run()) << "seed " << trial.seed;
    EXPECT_EQ(context.pool.best.has_value(), std::isfinite(trial.optimum))
        << "seed " << trial.seed;
    numImpossible += !context.pool.best;
    if (context.pool.best) {
      EXPECT_NEAR(context.pool.seconds, trial.optimum, 1e-9 * trial.optimum)
          << "seed " << trial.seed;
    }
  }
  EXPECT_GT(numImpossible, 0u);
}

/// A bound of what is decided is one of all that it leaves open.
TEST(ExactTest, decidedFormsAreBounded) {
  Random random(7);
  unsigned numRaised = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SearchProblem problem = makeRandomProblem(seed, {.isRich = true});
    Facts facts(problem);
    ChangeTable table(problem);
    FactorGraph graph(facts, table);
    graph.setWeights(getWeights(problem));
    Relaxation relaxation(graph, getUnfolded(graph));
    for (unsigned i = 0; i < 10; ++i)
      relaxation.sweep();
    double open = relaxation.getBound(), before = open;
    std::vector<unsigned> values;
    for (const Variable &variable : graph.variables)
      values.push_back(random.below(variable.size));
    double cost = relaxation.getCost(values), rounding = 1e-9 * cost;
    for (unsigned i = 0; i < values.size(); ++i) {
      relaxation.decide(i, values[i]);
      double bound = relaxation.getBound();
      EXPECT_GE(bound, before - rounding) << seed;
      EXPECT_LE(bound, cost + rounding) << seed;
      before = bound;
    }
    numRaised += before > open + rounding;
    for (unsigned i = 0; i < values.size(); ++i)
      relaxation.leaveOpen(i);
    EXPECT_EQ(relaxation.getBound(), open) << seed;
  }
  EXPECT_GT(numRaised, 25u);
}

/// With less work it says that it has not seen all.
TEST(ExactTest, endsWithItsWork) {
  unsigned numEnded = 0;
  for (unsigned i = 0; i < 40; ++i) {
    const Trial &trial = getTrials()[i];
    SearchOptions options;
    SearchEnd end(options);
    SearchContext context(trial.problem, options, end);
    bool isComplete =
        ExactSearch(context, getWeights(trial.problem), 2000).run();
    numEnded += !isComplete;
    EXPECT_TRUE(!isComplete ||
                context.pool.seconds <= trial.optimum * (1 + 1e-9))
        << "seed " << trial.seed;
  }
  EXPECT_GT(numEnded, 10u);
}

/// At the first no; and it asks often.
TEST(ExactTest, endsWhenItIsTold) {
  TransformerOptions small;
  small.layers = 1;
  SearchProblem problem = makeTransformer(small);
  unsigned calls = 0;
  SearchOptions options;
  options.progress = [&](double, double, double) { return ++calls < 20; };
  SearchEnd end(options);
  SearchContext context(problem, options, end);
  EXPECT_FALSE(ExactSearch(context, getWeights(problem), kEndlessWork).run());
  EXPECT_EQ(calls, 20u);
}
