//===- BoundaryTest.cpp - no other division into stages is cheaper --------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomProblem.h"
#include "tandem/Search/Search.h"
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <numeric>
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
/// cheaper, as the integer program proves for each, or finds none in so many
/// seconds. Returns how many it proves.
static unsigned proveDivisions(const SearchProblem &problem, const Plan &plan,
                               const std::string &name, double seconds = 0) {
  unsigned numProven = 0;
  for (std::vector<unsigned> &ends : getDivisions(plan.stageEnds)) {
    SearchOptions options;
    options.stageEnds = std::move(ends);
    options.starts = {plan};
    options.timeLimit = seconds;
    SearchResult result = searchIlp(problem, options);
    // Updates beside other operators.
    if (!result.plan)
      continue;
    EXPECT_GE(result.plan->cost, plan.cost * (1 - 1e-6)) << name;
    bool isProven = *result.stagesBound >= plan.cost * (1 - 1e-6);
    EXPECT_TRUE(isProven || seconds > 0) << name;
    numProven += isProven;
  }
  return numProven;
}

/// Nor is one of the plan's own stages, as the program proves without it, if it
/// has the time.
static void proveOwnDivision(const SearchProblem &problem, const Plan &plan,
                             const std::string &name, double seconds = 0) {
  SearchOptions options;
  options.stageEnds = plan.stageEnds;
  options.timeLimit = seconds;
  SearchResult result = searchIlp(problem, options);
  ASSERT_TRUE(result.plan) << name << ": " << result.error;
  EXPECT_GE(result.plan->cost, plan.cost * (1 - 1e-6)) << name;
  EXPECT_LE(*result.stagesBound, plan.cost * (1 + 1e-6)) << name;
  bool isProven = *result.stagesBound >= plan.cost * (1 - 1e-6);
  EXPECT_TRUE(isProven || seconds > 0) << name;
}

/// Two-layer problems of the HiDup paper, proven under the accounting that
/// their text names; benchmarks/search_boundaries.py proves all of them.
TEST(BoundaryTest, ofThePapersProblems) {
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
      if (!isNamed)
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
    numProven += proveDivisions(problem, plan, name);
    if (seed % 4 == 0)
      proveOwnDivision(problem, plan, name);
  }
  printf("%u divisions legal with the plan's forms, %u proven no better with "
         "any\n",
         numLegal, numProven);
  EXPECT_GT(numProven, 1500u);
  EXPECT_GT(numLegal, 1000u);
  EXPECT_GT(numStrands, 25u);
}

/// Seconds, bytes, latencies and bandwidths that have nothing to do with each
/// other.
static void price(SearchProblem &problem, Random &random) {
  double spread = random.chance(0.3) ? 8 : 3;
  for (SignatureSet &set : problem.signatureSets)
    for (Signature &signature : set)
      if (signature.seconds > 0)
        signature.seconds = 1e-4 * std::exp2(random.between(-spread, spread));
  for (Tensor &tensor : problem.tensors)
    tensor.elementBytes = int64_t(1) << random.below(7);
  double perByte = std::exp2(random.between(-32.0, -24.0));
  for (Axis &axis : problem.axes)
    for (ChangeRate &rate : axis.rates) {
      rate.latency = random.chance(0.7) ? random.between(1e-5, 6e-5) : 0;
      rate.secondsPerByte =
          perByte * random.between(0.5, 2.0) * (axis.isTime ? 0.1 : 1);
    }
  if (random.chance(0.5))
    problem.pieceLatency = random.between(0.0, 1e-4);
}

/// A random problem of 9 to 30 operators with duplex, mostly priced at random,
/// some of them pinned.
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
  if (random.chance(0.75))
    price(problem, random);
  if (random.chance(0.15))
    if (std::optional<Pin> pin = makeRandomPin(problem, random))
      problem = applyPin(problem, *pin);
  return problem;
}

namespace {
/// Which problems priced at random are looked at, and how long the integer
/// program may take for a division; 0: as long as it wants.
struct Campaign {
  std::vector<uint64_t> seeds;
  double seconds;
};
} // namespace

/// Seeds from A up to B, if TANDEM_PROBLEMS is "A-B"; else some whose optimum
/// takes labels, one that is not proven, and one in which seven of 17 operators
/// have to change at once.
static Campaign getCampaign() {
  const char *range = std::getenv("TANDEM_PROBLEMS");
  unsigned long long first = 0, last = 0;
  if (!range || std::sscanf(range, "%llu-%llu", &first, &last) != 2)
    return {{10, 40, 50, 173}, 0};
  Campaign campaign{std::vector<uint64_t>(std::max(first, last) - first), 10};
  std::iota(campaign.seeds.begin(), campaign.seeds.end(), first);
  return campaign;
}

/// For the division of a plan that is not proven, and for those beside it, the
/// integer program finds nothing cheaper. TANDEM_PROBLEMS=0-400 looks at 400.
TEST(BoundaryTest, ofProblemsPricedAtRandom) {
  Campaign campaign = getCampaign();
  unsigned numProblems = 0, numOptimal = 0, numDivisions = 0;
  for (uint64_t seed : campaign.seeds) {
    SearchProblem problem = makePricedProblem(seed);
    if (problem.getTimeAxis() < 0)
      continue;
    std::string name = "seed " + std::to_string(seed);
    SearchResult result = searchTandem(problem, {});
    ASSERT_TRUE(result.plan) << name << ": " << result.error;
    const Plan &plan = *result.plan;
    ++numProblems;
    numOptimal += plan.isOptimal;
    if (!plan.isOptimal)
      numDivisions += proveDivisions(problem, plan, name, campaign.seconds);
    if (!plan.isOptimal || seed % 4 == 0)
      proveOwnDivision(problem, plan, name, campaign.seconds);
  }
  printf("%u problems: %u proven optimal, %u divisions next to the other plans "
         "proven no better\n",
         numProblems, numOptimal, numDivisions);
}
