//===- BoundaryTest.cpp - no other division into stages is cheaper --------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Ilp/IlpProgram.h"
#include "RandomProblem.h"
#include "tandem/Search/Search.h"
#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

using namespace tandem;
using namespace tandem::cost;
using namespace tandem::cost::test;
using namespace tandem::search;

/// All divisions that move, add or remove one cut.
static std::vector<std::vector<unsigned>>
getDivisions(const std::vector<unsigned> &ends) {
  std::vector<std::vector<unsigned>> divisions;
  unsigned begin = 1;
  for (size_t i = 0; i < ends.size(); ++i) {
    for (unsigned op = begin; op < ends[i]; ++op) {
      divisions.push_back(ends);
      divisions.back().insert(divisions.back().begin() + i, op);
    }
    begin = ends[i] + 1;
    if (i + 1 == ends.size())
      break;
    divisions.push_back(ends);
    divisions.back().erase(divisions.back().begin() + i);
    for (unsigned op = i ? ends[i - 1] + 1 : 1; op < ends[i + 1]; ++op)
      if (op != ends[i]) {
        divisions.push_back(ends);
        divisions.back()[i] = op;
      }
  }
  return divisions;
}

/// How many of these divisions are legal; each is at least as dear.
static unsigned checkDivisions(const SearchProblem &problem, const Plan &plan,
                               const std::string &name) {
  ChangeTable table(problem);
  unsigned numLegal = 0;
  for (std::vector<unsigned> &ends : getDivisions(plan.stageEnds)) {
    Plan other = plan;
    other.stageEnds = std::move(ends);
    std::string error;
    std::optional<CostReport> report = cost::cost(problem, other, table, error);
    if (!report || report->peak > problem.memoryLimit)
      continue;
    ++numLegal;
    EXPECT_GE(report->seconds, plan.cost * (1 - 1e-9)) << name;
  }
  return numLegal;
}

/// Of these divisions, whatever the forms, copies and waiting, no plan is
/// cheaper, as the integer program proves for each. Returns how many.
static unsigned proveDivisions(const SearchProblem &problem, const Plan &plan,
                               const std::string &name) {
  unsigned numProven = 0;
  for (std::vector<unsigned> &ends : getDivisions(plan.stageEnds)) {
    SearchOptions options;
    options.stageEnds = std::move(ends);
    options.starts = {plan};
    SearchResult result = searchIlp(problem, options);
    // Updates beside other operators.
    if (!result.plan)
      continue;
    ++numProven;
    EXPECT_GE(result.plan->cost, plan.cost * (1 - 1e-6)) << name;
    EXPECT_GE(*result.stagesBound, plan.cost * (1 - 1e-6)) << name;
  }
  return numProven;
}

/// Nor is one of the plan's own stages, as the program proves without it.
static void proveOwnDivision(const SearchProblem &problem, const Plan &plan,
                             const std::string &name) {
  SearchOptions options;
  options.stageEnds = plan.stageEnds;
  SearchResult result = searchIlp(problem, options);
  ASSERT_TRUE(result.plan) << name << ": " << result.error;
  EXPECT_NEAR(plan.cost, *result.stagesBound, 1e-6 * plan.cost) << name;
}

/// Two-layer problems of the HiDup paper, proven under the accounting that
/// their text names; benchmarks/search_boundaries.py proves all of them.
TEST(BoundaryTest, ofThePapersProblems) {
  bool hasSolver =
      IntegerProgram().solve({}).status != IlpSolution::Status::NoSolver;
  for (const char *name :
       {"bert-sgmoe-2layers-2ranks", "bert-sgmoe-2layers-8ranks",
        "vit-sgmoe-2layers-8ranks"})
    for (Accounting accounting :
         {Accounting::HidupSerial, Accounting::HidupOverlapped}) {
      std::ifstream file(std::string(TANDEM_SEARCH_INPUTS "/") + name + ".txt");
      std::stringstream text;
      text << file.rdbuf();
      std::string error;
      std::optional<SearchProblem> problem =
          parseSearchProblem(text.str(), name, error);
      ASSERT_TRUE(problem) << error;
      bool isNamed = problem->accounting == accounting;
      problem->accounting = accounting;
      SearchResult result = searchTandem(*problem, {});
      ASSERT_TRUE(result.plan) << result.error;
      EXPECT_GT(checkDivisions(*problem, *result.plan, name), 5u);
      if (!hasSolver || !isNamed)
        continue;
      EXPECT_GT(proveDivisions(*problem, *result.plan, name), 150u);
      proveOwnDivision(*problem, *result.plan, name);
    }
}

/// And with the signatures of the plan and others, no plan of its stages is
/// cheaper, as the integer program proves; nor of the other divisions.
TEST(BoundaryTest, ofAHundredRandomProblems) {
  RandomOptions options;
  options.maxPlans = 20'000;
  bool hasSolver =
      IntegerProgram().solve({}).status != IlpSolution::Status::NoSolver;
  unsigned numLegal = 0, numStrands = 0, numProven = 0;
  for (uint64_t seed = 3000; seed < 3100; ++seed) {
    std::string name = "seed " + std::to_string(seed);
    SearchProblem problem = makeRandomProblem(seed, options);
    SearchResult result = searchTandem(problem, {});
    ASSERT_TRUE(result.plan) << name << ": " << result.error;
    const Plan &plan = *result.plan;
    numLegal += checkDivisions(problem, plan, name);
    ChangeTable table(problem);
    std::string error;
    auto report = cost::cost(problem, plan, table, error);
    numStrands += report->steps.size() > plan.stageEnds.size();
    if (!hasSolver)
      continue;
    numProven += proveDivisions(problem, plan, name);
    if (seed % 4 == 0)
      proveOwnDivision(problem, plan, name);
  }
  printf("%u divisions legal with the plan's forms, %u proven no better with "
         "any\n",
         numLegal, numProven);
  EXPECT_TRUE(!hasSolver || numProven > 1500u);
  EXPECT_GT(numLegal, 1000u);
  EXPECT_GT(numStrands, 25u);
}

/// A random problem of 17 to 26 operators whose seconds, bytes, latencies and
/// bandwidths have nothing to do with each other.
static SearchProblem makePricedProblem(uint64_t seed) {
  Random random(seed * 31 + 7);
  RandomOptions options;
  options.kind = random.pick(std::vector<RandomOptions::Kind>{
      RandomOptions::Kind::Any, RandomOptions::Kind::Duplex,
      RandomOptions::Kind::Join, RandomOptions::Kind::Wait});
  options.isRich = random.chance(0.3);
  options.minForward = options.maxForward = random.choose(3, 9);
  options.maxPlans = uint64_t(1) << random.choose(24, 60);
  SearchProblem problem = makeRandomProblem(seed, options);
  for (SignatureSet &set : problem.signatureSets)
    for (Signature &signature : set)
      if (signature.seconds > 0)
        signature.seconds = 1e-4 * std::exp2(random.between(-3.0, 3.0));
  for (Tensor &tensor : problem.tensors)
    tensor.elementBytes = int64_t(1) << random.below(7);
  double perByte = std::exp2(random.between(-32.0, -24.0));
  for (Axis &axis : problem.axes)
    for (ChangeRate &rate : axis.rates) {
      rate.latency = random.chance(0.7) ? random.between(1e-5, 6e-5) : 0;
      rate.secondsPerByte =
          perByte * random.between(0.5, 2.0) * (axis.isTime ? 0.1 : 1);
    }
  return problem;
}

/// No other division is cheaper where the optimum is proven.
TEST(BoundaryTest, ofProblemsPricedAtRandom) {
  for (uint64_t seed : {0, 5, 15, 23}) {
    SearchResult result = searchTandem(makePricedProblem(seed), {});
    ASSERT_TRUE(result.plan) << "seed " << seed << ": " << result.error;
    EXPECT_TRUE(result.plan->isOptimal) << "seed " << seed;
  }
}
