//===- Test.cpp - claims of Tandem's search -------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProblemBuilder.h"
#include "RandomProblem.h"
#include "Tandem/Problem/Untimed.h"
#include "Tandem/Relaxation/Fold.h"
#include "Tandem/Relaxation/Relaxation.h"
#include "Tandem/Stages/Pool.h"
#include "Tandem/Stages/Stages.h"
#include "Transformer.h"
#include "Trial.h"
#include "tandem/Search/Search.h"
#include "gtest/gtest.h"
#include <set>

using namespace tandem;
using namespace tandem::cost;
using namespace tandem::cost::test;
using namespace tandem::search;

static TransformerOptions getSmall(int64_t layers) {
  TransformerOptions options;
  options.layers = layers;
  options.batch = 16;
  options.sequence = 256;
  options.width = 512;
  options.heads = 8;
  options.hidden = 2048;
  options.vocabulary = 8192;
  options.filling = 1;
  options.mesh = {4, 2};
  return options;
}

TEST(TandemTest, boundsAreBelowTheOptimum) {
  double closest = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SearchProblem problem = makeRandomProblem(seed, {.maxPlans = 2000});
    SearchResult exact = searchTandem(problem, {});
    ASSERT_TRUE(exact.plan) << seed << ": " << exact.error;
    EXPECT_TRUE(exact.plan->isOptimal) << seed;
    Facts facts(problem);
    ChangeTable table(problem);
    FactorGraph graph(facts, table);
    if (problem.getNumStrands() > 2)
      continue;
    for (auto [first, second] :
         {std::pair(0.0, 0.0), {0.0, 1.0}, {0.5, 0.5}, {0.3, 0.9}, {1.0, 1.0}})
      for (double memory : {0.0, 1e-11, 1e-10, 1e-9}) {
        Weights weights = getBoundWeights(problem, first, second);
        weights.memory = memory;
        graph.setWeights(weights);
        Relaxation relaxation(graph, getUnfolded(graph));
        double before = relaxation.getBound();
        for (int i = 0; i < 6; ++i) {
          relaxation.sweep();
          double bound = relaxation.getBound();
          EXPECT_GE(bound, before - 1e-9 * graph.forbidden) << seed;
          before = bound;
        }
        double bound = before - memory * static_cast<double>(exact.plan->peak);
        EXPECT_LE(bound, exact.plan->cost * (1 + 1e-9)) << seed;
        closest = std::max(closest, bound / exact.plan->cost);
      }
  }
  // They are not trivially so.
  EXPECT_GT(closest, 0.8);
}

/// Bytes above the limit have a price, kept copies too: no plan that fits costs
/// less, and some bounds are higher than without. Few are: each strand may run
/// both passes in a stage of its own, and hold its share alone.
TEST(TandemTest, pricesOfMemoryGiveBounds) {
  unsigned numBinding = 0, numRaised = 0;
  for (const Trial &trial : getTrials()) {
    const SearchProblem &problem = trial.problem;
    if (!trial.limitBinds || problem.getNumStrands() > 2 ||
        !std::isfinite(trial.optimum))
      continue;
    ++numBinding;
    Facts facts(problem);
    ChangeTable table(problem);
    FactorGraph graph(facts, table);
    double lambda = problem.getNumStrands() == 1 ? 1 : 0.5;
    auto getBound = [&](double price) {
      Weights weights = getBoundWeights(problem, lambda, lambda);
      weights.memory = price;
      graph.setWeights(weights);
      Relaxation relaxation(graph, getUnfolded(graph));
      for (int i = 0; i < 20; ++i)
        relaxation.sweep();
      return relaxation.getBound() -
             price * static_cast<double>(problem.memoryLimit);
    };
    double without = getBound(0), most = without;
    double unit = trial.optimum / static_cast<double>(problem.memoryLimit);
    for (double share : {0.03, 0.1, 0.3, 1.0, 3.0, 10.0})
      most = std::max(most, getBound(share * unit));
    EXPECT_LE(most, trial.optimum * (1 + 1e-9)) << trial.seed;
    numRaised += most > without * (1 + 1e-3);
  }
  EXPECT_GE(numBinding, 50u);
  EXPECT_GT(numRaised, 0u);
}

/// What `bound` minimises is met by its own values, but for claims: with them
/// the least mean of values is lower than any value (4 % here).
TEST(TandemTest, valuesMeetTheBoundOnALayeredStep) {
  SearchProblem problem = makeTransformer(getSmall(3));
  Facts facts(problem);
  ChangeTable table(problem);
  FactorGraph graph(facts, table);
  Weights weights = getBoundWeights(problem, 0.6, 0.8);
  weights.serial = -1;
  graph.setWeights(weights);
  Relaxation relaxation(graph, getUnfolded(graph));
  for (int i = 0; i < 20; ++i)
    relaxation.sweep();
  std::vector<unsigned> values = relaxation.round();
  relaxation.descend(values, 5);
  double bound = relaxation.getBound(), cost = relaxation.getCost(values);
  EXPECT_LE(bound, cost * (1 + 1e-9));
  EXPECT_GE(bound, 0.99 * cost);
}

TEST(TandemTest, stagesOfTheOptimumAreFoundAgain) {
  for (uint64_t seed = 200; seed < 350; ++seed) {
    SearchProblem problem = makeRandomProblem(seed, {.maxPlans = 2000});
    SearchResult exact = searchTandem(problem, {});
    ASSERT_TRUE(exact.plan) << seed;
    Facts facts(problem);
    ChangeTable table(problem);
    FixedForms forms(facts, table);
    ASSERT_TRUE(forms.analyse(*exact.plan)) << seed;
    Plan plan = *exact.plan;
    std::optional<double> seconds =
        StagePlanner(facts).plan(forms, plan, {.maxFront = 48});
    ASSERT_TRUE(seconds) << seed;
    EXPECT_NEAR(*seconds, exact.plan->cost, 1e-9 * exact.plan->cost) << seed;
  }
}

/// No division that moves, adds or removes one boundary is cheaper.
static void checkBoundaries(const SearchProblem &problem, const Plan &plan) {
  ChangeTable table(problem);
  auto check = [&](std::vector<unsigned> ends) {
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    Plan other = plan;
    other.stageEnds = std::move(ends);
    std::string error;
    if (std::optional<CostReport> report =
            cost::cost(problem, other, table, error)) {
      EXPECT_GE(report->seconds, plan.cost * (1 - 1e-9));
    }
  };
  unsigned numOperators = problem.operators.size();
  for (unsigned op = 1; op < numOperators; ++op) {
    std::vector<unsigned> added = plan.stageEnds;
    added.push_back(op);
    check(added);
  }
  for (size_t i = 0; i + 1 < plan.stageEnds.size(); ++i) {
    std::vector<unsigned> removed = plan.stageEnds;
    removed.erase(removed.begin() + i);
    check(removed);
    for (unsigned to = i ? plan.stageEnds[i - 1] + 1 : 1;
         to < plan.stageEnds[i + 1]; ++to) {
      std::vector<unsigned> moved = plan.stageEnds;
      moved[i] = to;
      check(moved);
    }
  }
}

TEST(TandemTest, noOtherBoundaryIsCheaper) {
  SearchProblem problem = makeTransformer(getSmall(2));
  SearchResult result = searchTandem(problem, {});
  ASSERT_TRUE(result.plan) << result.error;
  checkBoundaries(problem, *result.plan);
}

TEST(TandemTest, repeatedLayersGetAPlanNearItsBound) {
  SearchProblem problem = makeTransformer(getSmall(6));
  SearchResult result = searchTandem(problem, {});
  ASSERT_TRUE(result.plan) << result.error;
  std::string error;
  EXPECT_TRUE(verifyPlan(problem, *result.plan, error)) << error;
  EXPECT_GT(result.plan->lowerBound, 0.85 * result.plan->cost);
}

/// Nothing can hide beside the forward pass of one strand: with its computation
/// at less than its price, computing everything everywhere would bound a step
/// of communication far below what it costs.
/// Prices of bytes decide for all layers that are alike at once: where a few
/// tensors less are enough, only these change.
TEST(TandemTest, aLittleLessMemoryCostsLittle) {
  TransformerOptions options = getSmall(6);
  options.mesh = {8};
  options.strands = 1;
  SearchResult ample = searchTandem(makeTransformer(options), {});
  ASSERT_TRUE(ample.plan) << ample.error;
  for (int64_t percent : {99, 95, 90}) {
    options.memoryLimit = ample.plan->peak * percent / 100;
    SearchResult result = searchTandem(makeTransformer(options), {});
    ASSERT_TRUE(result.plan) << result.error;
    EXPECT_LE(result.plan->peak, options.memoryLimit);
    EXPECT_LE(result.plan->cost, ample.plan->cost * 1.02);
  }
}

TEST(TandemTest, computationBesideWhichNothingWaitsCountsInFull) {
  TransformerOptions options = getSmall(2);
  options.mesh = {16};
  options.strands = 1;
  SearchProblem problem = makeTransformer(options);
  for (Axis &axis : problem.axes)
    for (ChangeRate &rate : axis.rates)
      rate.secondsPerByte *= 10;
  SearchResult result = searchTandem(problem, {});
  ASSERT_TRUE(result.plan) << result.error;
  Facts facts(problem);
  ChangeTable table(problem);
  FactorGraph graph(facts, table);
  auto getBound = [&](const Weights &weights) {
    graph.setWeights(weights);
    Relaxation relaxation(graph, getUnfolded(graph));
    for (int i = 0; i < 40; ++i)
      relaxation.sweep();
    return relaxation.getBound();
  };
  Weights weights = getBoundWeights(problem, 0.2, 0.2), all = weights;
  all.alone = all.once;
  EXPECT_GT(getBound(weights), 1.05 * getBound(all));
  EXPECT_LE(getBound(weights), result.plan->cost);
}

/// Their bound rises on a thread of its own.
TEST(TandemTest, equalLargeProblemsGetEqualPlans) {
  SearchProblem problem = makeTransformer(getSmall(40));
  ASSERT_GT(problem.operators.size(), 2000u);
  SearchResult first = searchTandem(problem, {});
  SearchResult second = searchTandem(problem, {});
  ASSERT_TRUE(first.plan && second.plan);
  EXPECT_EQ(print(problem, *first.plan), print(problem, *second.plan));
}

/// Both passes read the whole of each parameter, of which a device stores half.
static SearchProblem makeGathered(const std::vector<int64_t> &sizes) {
  ProblemBuilder builder;
  builder.addAxis("data", 2, {{{1, 1e-3}, {1, 1e-3}, {1, 1e-3}, {1, 1e-3}}});
  unsigned last = builder.addTensor("x", {1});
  builder.addInput(last, {signature(">f")});
  std::vector<unsigned> parameters;
  for (int64_t size : sizes) {
    parameters.push_back(builder.addTensor("w", {size}));
    builder.addResident(parameters.back(), {signature(">0")});
  }
  for (Pass pass : {Pass::Forward, Pass::Backward}) {
    for (unsigned parameter : parameters) {
      unsigned next = builder.addTensor("y", {1});
      builder.addCompute(pass, {last, parameter}, {next},
                         {signature("f,f>f", 1)});
      last = next;
    }
    std::reverse(parameters.begin(), parameters.end());
  }
  return builder.problem;
}

/// Where not all copies that are wanted again fit, those are kept that take
/// most seconds per byte to be made again.
TEST(TandemTest, littleMemoryIsSpentWhereItSavesMost) {
  SearchProblem problem = makeGathered({64, 256, 32, 512, 128});
  std::vector<unsigned> signatures(problem.operators.size());
  Facts facts(problem);
  ChangeTable table(problem);
  auto offer = [&](int64_t limit) {
    problem.memoryLimit = limit;
    PlanPool pool(facts, table);
    pool.offer(signatures);
    return pool.best;
  };
  auto getSaved = [&](const Copy &copy) {
    const Layout &produced = facts.getProduced(signatures, copy.tensor);
    return table.getCost(copy.tensor, produced, copy.layout).getTotal(1) /
           static_cast<double>(problem.getBytes(copy.tensor, copy.layout));
  };
  std::optional<Plan> all = offer(kNoLimit);
  ASSERT_TRUE(all);
  ASSERT_EQ(all->kept.size(), 5u);
  std::set<size_t> counts;
  for (int64_t limit = 2000; limit < 8000; limit += 100) {
    std::optional<Plan> tight = offer(limit);
    if (!tight)
      continue;
    counts.insert(tight->kept.size());
    double worst = std::numeric_limits<double>::infinity();
    for (const Copy &copy : tight->kept)
      worst = std::min(worst, getSaved(copy));
    for (const Copy &copy : all->kept)
      if (!std::binary_search(tight->kept.begin(), tight->kept.end(), copy)) {
        EXPECT_LE(getSaved(copy), worst * (1 + 1e-3)) << limit;
      }
  }
  EXPECT_GE(counts.size(), 4u);
}

TEST(TandemTest, equalProblemsGetEqualPlans) {
  SearchProblem problem = makeTransformer(getSmall(1));
  SearchResult first = searchTandem(problem, {});
  SearchResult second = searchTandem(problem, {});
  ASSERT_TRUE(first.plan && second.plan);
  EXPECT_EQ(print(problem, *first.plan), print(problem, *second.plan));
}

TEST(TandemTest, isNoWorseThanItsStarts) {
  SearchProblem problem = makeTransformer(getSmall(1));
  SearchResult first = searchTandem(problem, {});
  ASSERT_TRUE(first.plan) << first.error;
  // With other prices the same plan is a start.
  for (Axis &axis : problem.axes)
    for (ChangeRate &rate : axis.rates)
      rate.secondsPerByte *= 20;
  Plan start = *first.plan;
  std::string error;
  ASSERT_TRUE(derive(problem, start, error)) << error;
  SearchOptions options;
  options.starts.push_back(start);
  options.timeLimit = 1e-9;
  SearchResult second = searchTandem(problem, options);
  ASSERT_TRUE(second.plan) << second.error;
  EXPECT_LE(second.plan->cost, start.cost);
}

/// It is taken as it is where there is no time for others.
TEST(TandemTest, looksAtNothingElseWithoutTime) {
  SearchProblem problem = makeTransformer(getSmall(2));
  SearchOptions options;
  options.timeLimit = 1e-9;
  SearchResult first = searchTandem(problem, options);
  ASSERT_TRUE(first.plan) << first.error;
  EXPECT_GT(first.numVisited, 0u);
  options.starts.push_back(*first.plan);
  SearchResult second = searchTandem(problem, options);
  ASSERT_TRUE(second.plan) << second.error;
  EXPECT_EQ(second.numVisited, 0u);
  EXPECT_EQ(second.plan->cost, first.plan->cost);
  // What does not fit is no plan.
  problem.memoryLimit = first.plan->peak - 1;
  SearchResult third = searchTandem(problem, options);
  ASSERT_TRUE(third.plan) << third.error;
  EXPECT_GT(third.numVisited, 0u);
}

/// Without time and start the plan is that of the problem without its time
/// axis, whose changes are few.
TEST(TandemTest, splitsNothingOverTimeWithoutTime) {
  unsigned numPlans = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SearchProblem problem = makeRandomProblem(seed, {.maxPlans = 2000});
    std::optional<UntimedProblem> untimed = dropTime(problem);
    if (!untimed || !searchTandem(untimed->problem, {}).plan)
      continue;
    SearchOptions options;
    options.timeLimit = 1e-9;
    SearchResult result = searchTandem(problem, options);
    ASSERT_TRUE(result.plan) << seed << ": " << result.error;
    std::string error;
    EXPECT_TRUE(verifyPlan(problem, *result.plan, error)) << error;
    EXPECT_TRUE(untimed->lower(*result.plan)) << seed;
    ++numPlans;
  }
  EXPECT_GT(numPlans, 10u);
}

TEST(TandemTest, changesAreTakenApartBitByBit) {
  SearchProblem problem = makeTransformer(getSmall(1));
  Facts facts(problem);
  ChangeTable table(problem);
  FactorGraph whole(facts, table), parts(facts, table);
  unsigned numSteps = 0;
  for (bool isDone = false; !isDone; ++numSteps) {
    bool asked = false;
    isDone = parts.prepare([&] { return std::exchange(asked, true); });
  }
  EXPECT_EQ(numSteps, parts.kinds.size());
  whole.setWeights(Weights());
  parts.setWeights(Weights());
  EXPECT_EQ(whole.forbidden, parts.forbidden);
  for (unsigned i = 0; i < parts.kinds.size(); ++i)
    EXPECT_EQ(whole.kinds[i].distances, parts.kinds[i].distances);
}

/// What a start that is far dearer holds and costs guides no search.
TEST(TandemTest, farStartsChangeNothing) {
  SearchProblem problem = makeTransformer(getSmall(1));
  SearchResult alone = searchTandem(problem, {});
  ASSERT_TRUE(alone.plan) << alone.error;
  SearchProblem limited = problem;
  limited.memoryLimit = alone.plan->peak / 3 * 2;
  SearchOptions options;
  options.timeLimit = 1e-9;
  SearchResult small = searchTandem(limited, options);
  ASSERT_TRUE(small.plan) << small.error;
  ASSERT_GT(small.plan->cost, 1.2 * alone.plan->cost);
  options.timeLimit = 0;
  options.starts.push_back(*small.plan);
  SearchResult started = searchTandem(problem, options);
  ASSERT_TRUE(started.plan) << started.error;
  EXPECT_EQ(print(problem, *started.plan), print(problem, *alone.plan));
}

TEST(TandemTest, anInterruptedSearchReturnsAPlan) {
  SearchProblem problem = makeTransformer(getSmall(2));
  SearchOptions options;
  int calls = 0;
  options.progress = [&](double, double, double) { return ++calls < 2; };
  SearchResult result = searchTandem(problem, options);
  ASSERT_TRUE(result.plan) << result.error;
  EXPECT_EQ(calls, 2);
  std::string error;
  EXPECT_TRUE(verifyPlan(problem, *result.plan, error)) << error;
  EXPECT_FALSE(result.plan->isOptimal);
}

TEST(TandemTest, memoryIsNeverExceeded) {
  SearchProblem problem = makeTransformer(getSmall(1));
  SearchResult free = searchTandem(problem, {});
  ASSERT_TRUE(free.plan) << free.error;
  for (double share : {0.8, 0.5}) {
    problem.memoryLimit =
        static_cast<int64_t>(share * static_cast<double>(free.plan->peak));
    SearchResult tight = searchTandem(problem, {});
    if (!tight.plan) {
      EXPECT_NE(tight.error.find("bytes"), std::string::npos) << tight.error;
      continue;
    }
    EXPECT_LE(tight.plan->peak, problem.memoryLimit);
    EXPECT_GE(tight.plan->cost, free.plan->lowerBound);
  }
}

TEST(TandemTest, tooLittleMemoryIsProven) {
  SearchProblem problem = makeTransformer(getSmall(2));
  problem.memoryLimit = 1000;
  SearchResult result = searchTandem(problem, {});
  EXPECT_FALSE(result.plan);
  EXPECT_TRUE(result.isInfeasible);
  EXPECT_NE(result.error.find("more than the limit of 1000"), std::string::npos)
      << result.error;
  EXPECT_NE(result.error.find("the largest tensors are"), std::string::npos);
}
