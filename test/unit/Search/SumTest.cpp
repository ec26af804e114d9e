//===- SumTest.cpp - problems whose costs add up --------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IlpProgram.h"
#include "RandomProblem.h"
#include "TandemSparse.h"
#include "TandemSumSearch.h"
#include "TandemTree.h"
#include "Transformer.h"
#include "tandem/Search/Search.h"
#include <gtest/gtest.h>

using namespace tandem;
using namespace tandem::benchmarks;
using namespace tandem::cost;
using namespace tandem::cost::test;
using namespace tandem::search;

constexpr uint64_t kMaxEntries = 1 << 22;

/// A random problem without a time axis, one queue, pieces that cost nothing.
static std::optional<SearchProblem> makeSum(uint64_t seed, uint64_t maxPlans) {
  RandomOptions options;
  options.maxPlans = maxPlans;
  std::optional<SearchProblem> problem =
      withoutDuplex(makeRandomProblem(seed, options));
  if (!problem)
    return std::nullopt;
  for (Axis &axis : problem->axes)
    axis.queue = 0;
  problem->pieceLatency = 0;
  return problem;
}

namespace {
/// All choices of a model, one by one.
class Choices {
public:
  explicit Choices(const SumModel &model)
      : model(model), choice(model.variables.size()) {}

  double getCount() const {
    double count = 1;
    for (const SumVariable &variable : model.variables)
      count *= static_cast<double>(variable.values.size());
    return count;
  }
  bool next() {
    for (unsigned i = 0; i < choice.size(); ++i) {
      if (++choice[i] < model.variables[i].values.size())
        return true;
      choice[i] = 0;
    }
    return false;
  }

  const SumModel &model;
  std::vector<unsigned> choice;
};
} // namespace

/// Eliminating variables gives what looking at all choices gives; messages give
/// no more.
TEST(SumTest, treesAndMessagesAgreeWithAllChoices) {
  unsigned numCompared = 0;
  for (uint64_t seed = 1; numCompared < 60; ++seed) {
    std::optional<SearchProblem> problem = makeSum(seed, 2000);
    if (!problem)
      continue;
    Facts facts(*problem);
    ChangeTable table(*problem);
    SumModel model(facts, table, kMaxEntries);
    ASSERT_TRUE(model.isComplete());
    Choices all(model);
    if (all.getCount() > 20000)
      continue;
    ++numCompared;
    SumPrices prices = model.getPrices(seed % facts.problem.operators.size());
    double least = model.forbidden;
    std::vector<std::vector<double>> ofValue;
    for (const SumVariable &variable : model.variables)
      ofValue.emplace_back(variable.values.size(), 1e30);
    do {
      double cost = model.getCost(prices, all.choice);
      least = std::min(least, cost);
      for (unsigned i = 0; i < all.choice.size(); ++i)
        ofValue[i][all.choice[i]] = std::min(ofValue[i][all.choice[i]], cost);
    } while (all.next());
    double tolerance = 1e-12 * model.forbidden;
    SumTree tree(model);
    std::vector<unsigned> choice;
    EXPECT_NEAR(tree.solve(prices, choice), least, tolerance) << seed;
    EXPECT_NEAR(model.getCost(prices, choice), least, tolerance) << seed;
    std::vector<std::vector<double>> marginals = tree.getLeast();
    SumDual dual(model, prices);
    // Below a limit, combinations that cost more are left out.
    for (double limit :
         {least + 1, least * (1 + 1e-3) + tolerance, least / 2}) {
      SparseResult below = minimizeBelow(model, dual, limit, 1'000'000);
      ASSERT_TRUE(below.isComplete) << seed;
      if (limit < least) {
        EXPECT_EQ(below.least, kInfinity) << seed;
        continue;
      }
      EXPECT_NEAR(below.least, least, tolerance) << seed;
      EXPECT_NEAR(model.getCost(prices, below.choice), least, tolerance)
          << seed;
      for (unsigned i = 0; i < ofValue.size(); ++i)
        for (unsigned j = 0; j < ofValue[i].size(); ++j) {
          if (ofValue[i][j] < limit - tolerance) {
            EXPECT_NEAR(below.leastOf[i][j], ofValue[i][j], tolerance) << seed;
          } else {
            EXPECT_GE(below.leastOf[i][j], limit - tolerance) << seed;
          }
        }
    }
    double before = dual.getBound();
    for (unsigned sweep = 0; sweep < 10; ++sweep) {
      dual.sweep();
      EXPECT_GE(dual.getBound(), before - tolerance) << seed;
      before = dual.getBound();
    }
    EXPECT_LE(before, least + tolerance) << seed;
    std::vector<std::vector<double>> bounds = dual.getLeast();
    for (unsigned i = 0; i < ofValue.size(); ++i)
      for (unsigned j = 0; j < ofValue[i].size(); ++j) {
        if (ofValue[i][j] < model.forbidden) {
          EXPECT_NEAR(marginals[i][j], ofValue[i][j], tolerance) << seed;
        }
        EXPECT_LE(bounds[i][j], ofValue[i][j] + tolerance) << seed;
      }
  }
}

/// No plan is cheaper than the bound, whatever its stages; and the plan that is
/// meant costs what the sums say.
TEST(SumTest, theLeastSumIsTheOptimum) {
  unsigned numWaiting = 0, numCompared = 0, numEqual = 0;
  for (uint64_t seed = 1; numCompared < 40; ++seed) {
    std::optional<SearchProblem> problem = makeSum(seed, 3000);
    if (!problem)
      continue;
    SearchResult oracle = searchExhaustive(*problem, {});
    if (!oracle.plan)
      continue;
    ++numCompared;
    numWaiting += !oracle.plan->waiting.empty();
    Facts facts(*problem);
    ChangeTable table(*problem);
    SumLimits limits;
    std::optional<Plan> last;
    limits.takes = [&](const Plan &plan) { last = plan; };
    limits.proceeds = [&](double bound) {
      EXPECT_LE(bound, oracle.plan->cost * (1 + 1e-9)) << "seed " << seed;
      return true;
    };
    SumResult sums = searchSums(facts, table, {}, limits);
    double optimum = oracle.plan->cost;
    EXPECT_LE(sums.bound, optimum * (1 + 1e-9)) << "seed " << seed;
    EXPECT_NEAR(sums.bound, sums.seconds, 2e-9 * optimum) << "seed " << seed;
    ASSERT_TRUE(last) << "seed " << seed;
    std::string error;
    std::optional<CostReport> report =
        cost::cost(*problem, *last, table, error);
    ASSERT_TRUE(report) << error;
    EXPECT_GE(report->seconds, optimum * (1 - 1e-9)) << "seed " << seed;
    numEqual += report->seconds <= optimum * (1 + 1e-9);
  }
  // A copy that may only wait where no cheaper source exists is bounded, not
  // modelled.
  EXPECT_GE(numEqual, numCompared - 2);
  EXPECT_GT(numWaiting, 15u);
}

TEST(SumTest, theBestMeanOfAGame) {
  // Matching pennies, moved: the value is the mean of both.
  std::vector<double> mixture;
  std::vector<double> weights = solveGame({{1, 3}, {3, 1}}, mixture);
  EXPECT_NEAR(weights[0], 0.5, 1e-9);
  EXPECT_NEAR(mixture[0], 0.5, 1e-9);
  // A column that is never worse takes all.
  weights = solveGame({{2, 1}, {5, 4}}, mixture);
  EXPECT_NEAR(weights[0], 1, 1e-9);
  EXPECT_NEAR(mixture[0], 1, 1e-9);
  // 3 w = 4 (1 - w).
  weights = solveGame({{3, 0}, {0, 4}}, mixture);
  EXPECT_NEAR(weights[0], 4.0 / 7, 1e-9);
}

static SearchProblem makeTwoLayers() {
  TransformerOptions options;
  options.layers = 2;
  options.batch = 4;
  options.sequence = 64;
  options.width = 128;
  options.heads = 4;
  options.hidden = 512;
  options.vocabulary = 1024;
  options.filling = 0;
  options.strands = 1;
  options.mesh = {4};
  options.flops = 1e12;
  options.network = 5e9;
  SearchProblem problem = makeTransformer(options);
  problem.pieceLatency = 0;
  for (Axis &axis : problem.axes)
    axis.queue = 0;
  return problem;
}

/// On two layers of a transformer Tandem's search proves its plans, and the
/// integer program, which shares no code with it, agrees.
TEST(SumTest, twoLayersAreSolvedAsTheIntegerProgramSolvesThem) {
  SearchProblem problem = makeTwoLayers();
  SearchResult tandem = searchTandem(problem, {});
  ASSERT_TRUE(tandem.plan) << tandem.error;
  EXPECT_TRUE(tandem.plan->isOptimal);
  if (IntegerProgram().solve({}).status == IlpSolution::Status::NoSolver)
    return;
  SearchResult ilp = searchIlp(problem, {});
  ASSERT_TRUE(ilp.plan) << ilp.error;
  EXPECT_TRUE(ilp.plan->isOptimal);
  EXPECT_NEAR(tandem.plan->cost, ilp.plan->cost, 1e-6 * ilp.plan->cost);
}
