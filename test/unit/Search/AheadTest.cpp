//===- AheadTest.cpp - recomputation beside collectives -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tensor has 128 B, half of it per device where it is split (PlanFixture.h).
//
//===----------------------------------------------------------------------===//

#include "CostFixture.h"
#include "RandomPlan.h"
#include "RandomProblem.h"
#include "Tandem/Relaxation/Fold.h"
#include "Tandem/Relaxation/Relaxation.h"
#include "tandem/Cost/InTurn.h"
#include "tandem/Search/Exhaustive.h"
#include "tandem/Search/Search.h"

using namespace tandem::cost;
using namespace tandem::cost::test;
using namespace tandem::search;

namespace {
struct AheadTest : CostTest {
  /// A collective of 2 s in the stage of the second operator; the third one
  /// makes x again, in `seconds`, and the last one reads that, maybe behind a
  /// collective.
  void build(const char *last, double seconds) {
    unsigned x = input("x", ">0");
    unsigned y = compute(kForward, {x}, "0>0", 3);
    compute(kForward, {y}, "f>f", 5);
    unsigned again = compute(kForward, {x}, "0>0", seconds, "t", 100);
    compute(kForward, {again}, last, 1);
    b.problem.operators[3].isAgain = true;
  }
  Plan ahead(std::vector<unsigned> stageEnds, std::vector<unsigned> begins) {
    Plan result = plan(std::move(stageEnds));
    result.ahead = std::move(begins);
    return result;
  }
};

using Stages = std::vector<unsigned>;
} // namespace

TEST_F(AheadTest, liesBesideTheCollectivesOfItsStage) {
  build("0>0", 1.5);
  expectSlots(ask(plan({2, 4, 5})), {0, 5, 6.5, 1});
  // 1.5 s beside 2 s.
  CostReport report = ask(ahead({2, 4, 5}, {2}));
  expectSlots(report, {0, 5, 5, 1});
  EXPECT_DOUBLE_EQ(report.seconds, 11);
  EXPECT_DOUBLE_EQ(report.steps[1].ahead, 1.5);
  // beta = gamma = 0.5: max(1.5 + 0.5 * 2, 2 + 0.5 * 1.5).
  setSlowdowns(2, 4.0 / 3);
  setSlowdowns(1.6, 1.6);
  EXPECT_NEAR(ask(ahead({2, 4, 5}, {2})).slots[1].seconds, 3 + 2 + 0.6 * 1.5,
              kTolerance);
}

TEST_F(AheadTest, isHeldFromTheBeginOfItsStage) {
  build("0>0", 1);
  int64_t without = ask(plan({2, 4, 5})).stageBytes[1];
  // 64 B of the result and 100 of the workspace beside the second operator,
  // which holds y, its copy, and what it makes.
  EXPECT_EQ(ask(ahead({2, 4, 5}, {2})).stageBytes[1],
            ask(plan({2, 3, 4, 5})).stageBytes[1] + 164);
  EXPECT_GT(ask(ahead({2, 4, 5}, {2})).stageBytes[1], without);
}

TEST_F(AheadTest, onlyWhatWasThereIsRead) {
  build("0>0", 1);
  ChangeTable table(b.problem);
  EXPECT_EQ(listAheadable(b.problem, plan({2, 4, 5}), table), Stages({2}));
  EXPECT_EQ(listAheadable(b.problem, plan({2, 3, 4, 5}), table), Stages({3}));
  EXPECT_EQ(askError(ahead({2, 4, 5}, {4})),
            "stage 2 runs ahead, expected one that makes values again of what "
            "was there before");
  b.problem.operators[1].isAgain = true;
  EXPECT_EQ(askError(ahead({2, 4, 5}, {0})),
            "stage 0 runs ahead, expected one behind the first stage");
  EXPECT_EQ(askError(ahead({2, 4, 5}, {3})),
            "the plan runs 1 stages ahead, but 0 of them are stages of the "
            "plan, expected all, each once");
  // What is made in the stage itself was not there, nor is its copy.
  b.problem.operators[1].isAgain = b.problem.operators[3].isAgain = false;
  b.problem.operators[2].isAgain = true;
  EXPECT_EQ(listAheadable(b.problem, plan({2, 4, 5}), table), Stages());
  EXPECT_EQ(listAheadable(b.problem, plan({2, 3, 5}), table), Stages());
}

TEST_F(AheadTest, insidesOfKernelsFollowTheirReaders) {
  build("0>0", 1);
  b.problem.tensors[3].isInKernel = true;
  ChangeTable table(b.problem);
  EXPECT_EQ(listAheadable(b.problem, plan({2, 5}), table), Stages());
  b.problem.operators[4].isAgain = true;
  EXPECT_EQ(listAheadable(b.problem, plan({2, 5}), table), Stages({2}));
}

TEST_F(AheadTest, collectivesBeginWithWhatIsAhead) {
  build("f>f", 1);
  ChangeTable table(b.problem);
  for (bool isAhead : {false, true}) {
    Plan stages = ahead({2, 4, 5}, isAhead ? Stages({2}) : Stages());
    // The copy of what is made again may be there beside the second operator.
    b.problem.memoryLimit = ask(stages).stageBytes[1] + 127;
    EXPECT_EQ(findInTurn(b.problem, stages, table),
              isAhead ? Stages({2}) : Stages());
  }
}

TEST_F(AheadTest, isText) {
  build("0>0", 1);
  Plan stages = ahead({2, 4, 5}, {2});
  std::string error, text = print(b.problem);
  EXPECT_NE(text.find("results 3 again\n"), std::string::npos) << text;
  EXPECT_EQ(parseSearchProblem(text, "p", error), b.problem) << error;
  ASSERT_TRUE(derive(b.problem, stages, error)) << error;
  text = print(b.problem, stages);
  EXPECT_NE(text.find("stage 1 ahead\n"), std::string::npos) << text;
  EXPECT_EQ(parsePlan(b.problem, text, "p", error), stages) << error;
  text.replace(text.find("ahead"), 5, "soon!");
  EXPECT_FALSE(parsePlan(b.problem, text, "p", error));
  EXPECT_NE(error.find("found 'soon!', expected 'ahead' or the end"),
            std::string::npos)
      << error;
}

//===----------------------------------------------------------------------===//
// Searches
//===----------------------------------------------------------------------===//

/// In one strand, in several, and with limits of memory.
static SearchProblem makeProblem(uint64_t seed) {
  SearchProblem problem =
      makeRandomProblem(seed, {.maxForward = 4, .maxPlans = 1'000});
  Random random(seed);
  if (random.chance(0.6))
    problem = withoutDuplex(problem).value_or(problem);
  if (random.chance(0.3))
    addPlaces(problem, random);
  addAgain(problem, random);
  return problem;
}

/// No plan costs less than what the relaxation says.
static void expectBounds(const SearchProblem &problem, const Plan &best) {
  Facts facts(problem);
  ChangeTable table(problem);
  FactorGraph graph(facts, table);
  for (auto [first, second] :
       {std::pair(0.0, 0.0), {0.0, 1.0}, {0.5, 0.5}, {0.3, 0.9}, {1.0, 1.0}}) {
    graph.setWeights(getBoundWeights(problem, first, second));
    Relaxation relaxation(graph, getUnfolded(graph));
    for (int i = 0; i < 6; ++i)
      relaxation.sweep();
    EXPECT_LE(relaxation.getBound(), best.cost * (1 + 1e-9))
        << first << " " << second;
  }
}

/// The exhaustive search decides: bounds are below its plan, and what is proven
/// costs as much.
TEST(AheadSearchTest, searchesAgree) {
  unsigned numAhead = 0, numFound = 0, numProven = 0, numIlp = 0;
  for (uint64_t seed = 0; seed < 240; ++seed) {
    SCOPED_TRACE(seed);
    SearchProblem problem = makeProblem(seed);
    SearchResult exact = searchExhaustive(problem, {});
    if (!exact.plan)
      continue;
    if (seed % 3 == 0 && exact.plan->peak > 0)
      problem.memoryLimit = exact.plan->peak - 1;
    if (problem.memoryLimit != kNoLimit)
      exact = searchExhaustive(problem, {});
    SearchResult found = searchTandem(problem, {});
    ASSERT_EQ(bool(exact.plan), bool(found.plan)) << found.error;
    if (!exact.plan)
      continue;
    std::string error;
    EXPECT_TRUE(verifyPlan(problem, *found.plan, error)) << error;
    numAhead += !exact.plan->ahead.empty();
    numFound += found.plan->cost <= exact.plan->cost * (1 + 1e-9);
    numProven += found.plan->isOptimal;
    EXPECT_LE(found.plan->lowerBound, exact.plan->cost * (1 + 1e-9));
    EXPECT_GE(found.plan->cost, exact.plan->cost * (1 - 1e-9));
    expectBounds(problem, *exact.plan);
    if (seed % 4 != 0)
      continue;
    // With the stages of the best plan, `ilp` finds it.
    SearchOptions options;
    options.stageEnds = exact.plan->stageEnds;
    SearchResult ilp = searchIlp(problem, options);
    ASSERT_TRUE(ilp.plan) << ilp.error;
    EXPECT_NEAR(ilp.plan->cost, exact.plan->cost, 1e-6 * exact.plan->cost);
    ++numIlp;
  }
  printf("%u plans run ahead; %u found, %u proven, %u by ilp\n", numAhead,
         numFound, numProven, numIlp);
  EXPECT_GT(numAhead, 25u);
  EXPECT_GT(numIlp, 40u);
  EXPECT_GT(numProven, 150u);
  EXPECT_GT(numFound, 220u);
}
