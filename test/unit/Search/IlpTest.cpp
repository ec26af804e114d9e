//===- IlpTest.cpp - the integer program against the exhaustive search ----===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Ilp/IlpSearch.h"
#include "RandomProblem.h"
#include "tandem/Search/Exhaustive.h"
#include <gtest/gtest.h>
#include <map>

using namespace tandem;
using namespace tandem::cost;
using namespace tandem::search;
using namespace tandem::cost::test;

namespace {
constexpr uint64_t kManyPlans = 200'000;

constexpr RandomOptions kOptions{.maxPlans = 3'000};

bool isClose(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max(a, b);
}

/// The cheapest cost below the limit, and the smallest peak, of each division
/// into stages; and some plan.
struct Best {
  double cost = kInfinity;
  int64_t peak = std::numeric_limits<int64_t>::max();
  int64_t smallestPeak = std::numeric_limits<int64_t>::max();
  Plan some;
};
using BestByStages = std::map<std::vector<unsigned>, Best>;

bool enumerate(const SearchProblem &problem, BestByStages &best) {
  std::string error;
  uint64_t numVisited = 0;
  auto visit = [&](const Plan &plan, const CostReport &report) {
    auto [place, isNew] = best.try_emplace(plan.stageEnds);
    Best &entry = place->second;
    if (isNew)
      entry.some = plan;
    entry.smallestPeak = std::min(entry.smallestPeak, report.peak);
    if (report.peak <= problem.memoryLimit && report.seconds < entry.cost) {
      entry.cost = report.seconds;
      entry.peak = report.peak;
    }
    return true;
  };
  return enumeratePlans(problem, kManyPlans, visit, numVisited, error);
}

/// That of the optimum, and any.
std::array<std::pair<std::vector<unsigned>, Best>, 2>
chooseDivisions(const BestByStages &all, uint64_t seed) {
  auto isCheaper = [](auto &a, auto &b) {
    return a.second.cost < b.second.cost;
  };
  Random random(seed);
  return {*std::min_element(all.begin(), all.end(), isCheaper),
          *std::next(all.begin(), random.below(all.size()))};
}

SearchResult runIlp(const SearchProblem &problem,
                    std::vector<unsigned> stages = {},
                    std::vector<Plan> starts = {}) {
  SearchOptions options;
  options.stageEnds = std::move(stages);
  options.starts = std::move(starts);
  SearchResult result = searchIlp(problem, options);
  std::string error;
  if (result.plan) {
    EXPECT_TRUE(verifyPlan(problem, *result.plan, error)) << error;
  }
  return result;
}
} // namespace

TEST(IlpTest, SameProblemSamePlan) {
  for (uint64_t seed : {3, 5, 8}) {
    SearchProblem problem = makeRandomProblem(seed, kOptions);
    std::string first;
    for (int run = 0; run < 3; ++run) {
      SearchResult result = runIlp(problem);
      ASSERT_TRUE(result.plan) << result.error;
      std::string text = print(problem, *result.plan);
      EXPECT_TRUE(first.empty() || first == text);
      first = text;
    }
  }
}

TEST(IlpTest, RefusesAccountingsThatMeanNothing) {
  SearchProblem problem = makeRandomProblem(1, kOptions);
  problem.accounting = Accounting::HidupSerial;
  SearchResult result = searchIlp(problem, SearchOptions());
  EXPECT_FALSE(result.plan);
  EXPECT_NE(result.error.find("use the accounting tandem"), std::string::npos)
      << result.error;
}

TEST(IlpTest, RefusesWrongStages) {
  SearchProblem problem = makeRandomProblem(1, kOptions);
  unsigned numOperators = problem.operators.size();
  for (const std::vector<unsigned> &stages :
       {std::vector<unsigned>{numOperators - 2},
        {numOperators + 1},
        {4, 3, numOperators},
        {numOperators}}) {
    SearchOptions options;
    options.stageEnds = stages;
    SearchResult result = searchIlp(problem, options);
    EXPECT_FALSE(result.plan);
    EXPECT_NE(result.error.find(", expected "), std::string::npos);
  }
}

TEST(IlpTest, SaysHowMuchIsMissing) {
  SearchProblem problem = makeRandomProblem(4, kOptions);
  BestByStages all;
  ASSERT_TRUE(enumerate(problem, all));
  for (const auto &[stages, best] : all) {
    problem.memoryLimit = best.smallestPeak - 1;
    SearchOptions options;
    options.stageEnds = stages;
    SearchResult result = searchIlp(problem, options);
    EXPECT_FALSE(result.plan);
    EXPECT_NE(result.error.find("no plan with these stages fits into " +
                                std::to_string(problem.memoryLimit)),
              std::string::npos)
        << result.error;
  }
}

/// A limit that is reached at once: a start is returned, with an honest gap.
TEST(IlpTest, ObeysTheTimeLimit) {
  SearchProblem problem = makeRandomProblem(2, kOptions);
  SearchOptions options;
  options.starts = {*searchExhaustive(problem, options).plan};
  options.timeLimit = 1e-9;
  SearchResult result = searchIlp(problem, options);
  ASSERT_TRUE(result.plan) << result.error;
  std::string error;
  EXPECT_TRUE(verifyPlan(problem, *result.plan, error)) << error;
  EXPECT_FALSE(result.plan->isOptimal);
}

/// Without a start too.
TEST(IlpTest, FindsAPlanInNoTime) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SearchProblem problem = makeRandomProblem(seed, kOptions);
    SearchOptions options;
    options.timeLimit = 1e-9;
    SearchResult result = searchIlp(problem, options);
    ASSERT_TRUE(result.plan) << "seed " << seed << ": " << result.error;
    std::string error;
    EXPECT_TRUE(verifyPlan(problem, *result.plan, error)) << error;
  }
}

/// A start that does not fit is none: the search begins with a plan of
/// `tandem`, whose bound holds for all plans.
TEST(IlpTest, LeavesOutAStartThatDoesNotFit) {
  unsigned numPlans = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SearchProblem problem = makeRandomProblem(seed, kOptions);
    problem.memoryLimit = std::numeric_limits<int64_t>::max();
    SearchOptions options;
    options.starts = {*searchExhaustive(problem, {}).plan};
    problem.memoryLimit = options.starts.front().peak - 1;
    SearchResult best = searchExhaustive(problem, {}),
                 result = searchIlp(problem, options);
    ASSERT_EQ(bool(result.plan), bool(best.plan)) << "seed " << seed;
    if (!best.plan) {
      EXPECT_TRUE(result.isInfeasible) << "seed " << seed;
      continue;
    }
    ++numPlans;
    EXPECT_TRUE(isClose(result.plan->cost, best.plan->cost))
        << "seed " << seed << ": " << result.plan->cost << ", expected "
        << best.plan->cost;
    EXPECT_TRUE(result.plan->isOptimal) << "seed " << seed;
  }
  EXPECT_GT(numPlans, 5u);
}

/// For stages that are given none is made up.
TEST(IlpTest, SaysThatItWasStopped) {
  SearchProblem problem = makeRandomProblem(3, kOptions);
  SearchOptions options;
  options.stageEnds = searchExhaustive(problem, options).plan->stageEnds;
  options.timeLimit = 1e-9;
  SearchResult result = searchIlp(problem, options);
  EXPECT_FALSE(result.plan);
  EXPECT_EQ(result.error, "no plan was found before the search was stopped; "
                          "give it more time, or a plan to begin with");
}

/// An interrupt at the first chance: the plan that was given, with an honest
/// gap, and no further program.
TEST(IlpTest, ObeysAnInterrupt) {
  SearchProblem problem = makeRandomProblem(2, kOptions);
  SearchOptions options;
  options.starts = {*searchExhaustive(problem, options).plan};
  unsigned numCalls = 0;
  options.progress = [&](double, double, double) {
    ++numCalls;
    return false;
  };
  SearchResult result = searchIlp(problem, options);
  ASSERT_TRUE(result.plan) << result.error;
  EXPECT_EQ(numCalls, 1u);
  std::string error;
  EXPECT_TRUE(verifyPlan(problem, *result.plan, error)) << error;
  EXPECT_FALSE(result.plan->isOptimal);
}

/// A copy serves as well as the producer's layout, which a later pass wants:
/// the copy is not kept for that, nor is there one to be kept further.
TEST(IlpTest, KeepsNoCopyOfTheProducersLayout) {
  constexpr const char *kProblem = R"(tandem-problem 1
accounting tandem
axis data space 2 queue 0 all-gather 0 s 1e-6 s/B reduce-scatter 0 s 1e-6 s/B all-reduce 0 s 2e-6 s/B all-to-all 0 s 1e-6 s/B
tensor 0 w 4x4 4 B
tensor 1 a 4x4 4 B
tensor 2 b 4x4 4 B
tensor 3 d 4x4 4 B
tensor 4 new 4x4 4 B
signatures 0
  data='-> gather(0)' 0 s 0 B
signatures 1
  data='full -> full' 1e-3 s 0 B
signatures 2
  data='full, gather(1) -> gather(1)' 1e-3 s 0 B
signatures 3
  data='gather(1), gather(0) -> gather(0)' 1e-3 s 0 B
signatures 4
  data='gather(0), gather(0) -> gather(0)' 1e-3 s 0 B
operator 0 forward resident resident set 0 operands - results 0
operator 1 forward compute copy set 1 operands 0 results 1
operator 2 forward compute add set 2 operands 1,0 results 2
operator 3 backward compute add set 3 operands 2,0 results 3
operator 4 update compute update set 4 operands 0,3 results 4
)";
  std::string error;
  auto problem = parseSearchProblem(kProblem, "p.txt", error);
  ASSERT_TRUE(problem) << error;
  SearchResult best = searchExhaustive(*problem, {});
  ASSERT_TRUE(best.plan) << best.error;
  SearchResult result = runIlp(*problem, {2, 3, 4, 5});
  ASSERT_TRUE(result.plan) << result.error;
  EXPECT_TRUE(result.plan->kept.empty());
  EXPECT_TRUE(isClose(result.plan->cost, best.plan->cost));
}

/// Where costs add up, one operator per stage is the whole problem.
TEST(IlpTest, EqualsExhaustiveWithoutDuplex) {
  unsigned numCompared = 0, numLimited = 0, numWaiting = 0, numKept = 0;
  for (uint64_t seed = 1; numCompared < 50; ++seed) {
    std::optional<SearchProblem> problem =
        withoutDuplex(makeRandomProblem(seed, kOptions));
    if (!problem)
      continue;
    // A piece that costs nothing: else larger stages are cheaper.
    if (problem->getNumQueues() > 1)
      for (Axis &axis : problem->axes)
        axis.queue = 0;
    problem->pieceLatency = 0;
    BestByStages all;
    if (!enumerate(*problem, all))
      continue;
    Best best;
    for (const auto &[stages, entry] : all) {
      best.smallestPeak = std::min(best.smallestPeak, entry.smallestPeak);
      if (entry.cost < best.cost)
        best = {entry.cost, entry.peak, best.smallestPeak, {}};
    }
    if (seed % 2 && best.smallestPeak < best.peak) {
      problem->memoryLimit =
          best.smallestPeak + (best.peak - best.smallestPeak) / 2;
      ++numLimited;
      all.clear();
      enumerate(*problem, all);
      best = Best();
      for (const auto &[stages, entry] : all)
        best.cost = std::min(best.cost, entry.cost);
    }
    SearchResult result = runIlp(*problem);
    ASSERT_TRUE(result.plan) << "seed " << seed << ": " << result.error;
    ASSERT_TRUE(result.stagesBound);
    EXPECT_GT(result.plan->lowerBound, 0) << "seed " << seed;
    EXPECT_LE(result.plan->lowerBound, best.cost * (1 + 1e-9))
        << "seed " << seed;
    if (!result.plan->isOptimal)
      continue;
    ++numCompared;
    numWaiting += !result.plan->waiting.empty();
    numKept += !result.plan->kept.empty();
    EXPECT_TRUE(isClose(result.plan->cost, best.cost))
        << "seed " << seed << ": " << result.plan->cost << ", expected "
        << best.cost;
  }
  printf("%u problems: limit binds in %u, waits in %u, keeps in %u\n",
         numCompared, numLimited, numWaiting, numKept);
  EXPECT_GT(numLimited, 5u);
  EXPECT_GT(numWaiting, 5u);
}

/// A copy that waits may have another source than its gradient, so that the
/// program does not cover larger stages: the bound of the plan to begin with
/// does, and where none is known a relaxation that lets all copies wait.
TEST(IlpTest, BoundsAllStagesOfCopiesThatWait) {
  constexpr const char *kProblem = R"(tandem-problem 1
accounting tandem
axis data space 2 queue 0 all-gather 0 s 1e-6 s/B reduce-scatter 0 s 1e-6 s/B all-reduce 0 s 2e-6 s/B all-to-all 0 s 1e-6 s/B
tensor 0 w 4x4 4 B
tensor 1 g 4x4 4 B
tensor 2 h 4x4 4 B
tensor 3 u 4x4 4 B
tensor 4 v 4x4 4 B
signatures 0
  data='-> full' 0 s 0 B
signatures 1
  data='full -> reduce' 1e-3 s 0 B
signatures 2
  data='full -> full' 1e-3 s 0 B
  data='gather(0) -> gather(0)' 5e-4 s 0 B
operator 0 forward resident resident set 0 operands - results 0
operator 1 backward compute gradient set 1 operands 0 results 1
operator 2 backward compute other set 2 operands 0 results 2
operator 3 update compute update set 2 operands 1 results 3
operator 4 update compute update set 2 operands 1 results 4
)";
  std::string error;
  auto problem = parseSearchProblem(kProblem, "p.txt", error);
  ASSERT_TRUE(problem) << error;
  SearchResult best = searchExhaustive(*problem, {});
  ASSERT_TRUE(best.plan) << best.error;
  for (std::vector<Plan> starts : {{}, std::vector{*best.plan}}) {
    SearchResult result = runIlp(*problem, {}, starts);
    ASSERT_TRUE(result.plan) << result.error;
    EXPECT_TRUE(result.plan->isOptimal);
    EXPECT_TRUE(isClose(result.plan->cost, best.plan->cost));
  }
}

/// Where further pieces cost something, which stages are best is not known: a
/// bound for all, and where nothing is lost to pieces the optimum.
TEST(IlpTest, BoundsPlansWithPieces) {
  unsigned numCompared = 0, numProven = 0, numWaiting = 0;
  for (uint64_t seed = 200; numCompared < 40; ++seed) {
    std::optional<SearchProblem> problem =
        withoutDuplex(makeRandomProblem(seed, kOptions));
    if (!problem || problem->getNumQueues() > 1)
      continue;
    BestByStages all;
    if (!enumerate(*problem, all))
      continue;
    double best = kInfinity;
    for (const auto &[stages, entry] : all)
      best = std::min(best, entry.cost);
    SearchResult result = runIlp(*problem);
    ASSERT_TRUE(result.plan) << "seed " << seed << ": " << result.error;
    ++numCompared;
    numProven += result.plan->isOptimal;
    numWaiting += !result.plan->waiting.empty();
    EXPECT_GT(result.plan->lowerBound, 0.8 * best) << "seed " << seed;
    EXPECT_LE(result.plan->lowerBound, best * (1 + 1e-9)) << "seed " << seed;
    EXPECT_GE(result.plan->cost, best * (1 - 1e-9)) << "seed " << seed;
    if (result.plan->isOptimal) {
      EXPECT_TRUE(isClose(result.plan->cost, best)) << "seed " << seed;
    }
  }
  printf("%u problems: %u proven, waits in %u\n", numCompared, numProven,
         numWaiting);
  EXPECT_GT(numProven, 5u);
  EXPECT_GT(numWaiting, 5u);
}

/// With duplex, waiting and a limit, for the stages of the optimum and for
/// others, without a plan to begin with and with some plan.
TEST(IlpTest, EqualsExhaustiveWithGivenStages) {
  unsigned numCompared = 0, numLimited = 0, numWaiting = 0, numStrands = 0,
           numPieces = 0;
  for (uint64_t seed = 1; numCompared < 60; ++seed) {
    SearchProblem problem = makeRandomProblem(seed, kOptions);
    BestByStages all;
    if (!enumerate(problem, all))
      continue;
    for (auto [stages, best] : chooseDivisions(all, seed)) {
      problem.memoryLimit = std::numeric_limits<int64_t>::max();
      if (seed % 2 && best.smallestPeak < best.peak) {
        problem.memoryLimit =
            best.smallestPeak + (best.peak - best.smallestPeak) / 2;
        ++numLimited;
        BestByStages limited;
        enumerate(problem, limited);
        best = limited[stages];
      }
      SearchResult result = runIlp(problem, stages);
      SearchResult narrowed = runIlp(problem, stages, {best.some});
      ++numCompared;
      ASSERT_TRUE(result.plan) << "seed " << seed << ": " << result.error;
      ASSERT_TRUE(narrowed.plan) << "seed " << seed << ": " << narrowed.error;
      EXPECT_EQ(*narrowed.stagesBound, narrowed.plan->cost) << "seed " << seed;
      EXPECT_TRUE(isClose(narrowed.plan->cost, best.cost))
          << "seed " << seed << ": " << narrowed.plan->cost << ", expected "
          << best.cost;
      numWaiting += !result.plan->waiting.empty();
      numPieces += !result.plan->waiting.empty() && problem.pieceLatency > 0;
      ChangeTable table(problem);
      std::string error;
      std::optional<CostReport> report =
          cost::cost(problem, *result.plan, table, error);
      numStrands += report->steps.size() > stages.size();
      EXPECT_EQ(*result.stagesBound, result.plan->cost) << "seed " << seed;
      EXPECT_TRUE(isClose(result.plan->cost, best.cost))
          << "seed " << seed << ": " << result.plan->cost << ", expected "
          << best.cost;
    }
  }
  printf("%u divisions: limit binds in %u, waits in %u (pieces that cost: %u), "
         "duplex in %u\n",
         numCompared, numLimited, numWaiting, numPieces, numStrands);
  EXPECT_GT(numPieces, 10u);
  EXPECT_GT(numLimited, 20u);
  EXPECT_GT(numWaiting, 20u);
  EXPECT_GT(numStrands, 20u);
}

/// Whatever the thresholds, a cut leaves all plans: the optimum costs what it
/// does without.
TEST(IlpTest, CutsLeaveAllPlans) {
  constexpr double kUnits = 1e4;
  constexpr unsigned kMaxSlots = 40;
  unsigned numCompared = 0, numWaiting = 0;
  for (uint64_t seed = 1; numCompared < 75; ++seed) {
    SearchProblem problem = makeRandomProblem(seed, kOptions);
    problem.memoryLimit = std::numeric_limits<int64_t>::max();
    BestByStages all;
    if (problem.pieceLatency == 0 || !enumerate(problem, all))
      continue;
    ++numCompared;
    auto [ends, best] = chooseDivisions(all, seed)[seed % 2];
    IlpStages stages(problem, ends);
    ChangeTable table(problem);
    double scale = kUnits / best.cost;
    IlpModel model(problem, stages, allowAll(problem), table,
                   IlpFreedom::OfMemory, scale, [] { return false; });
    Random random(seed);
    for (unsigned slot = 0; slot < kMaxSlots; ++slot) {
      IlpCut cut{slot, {}};
      for (int op = 0; op < static_cast<int>(problem.operators.size()); ++op) {
        const SignatureSet &signatures = problem.getSignatures(op);
        double seconds = signatures[random.below(signatures.size())].seconds;
        cut.thresholds[{0, op}] = seconds * scale * random.between(0.0, 1.2);
      }
      model.time->addCut(cut);
    }
    IlpSolution solution = model.program.solve({});
    ASSERT_EQ(solution.status, IlpSolution::Status::Optimal) << "seed " << seed;
    EXPECT_NEAR(solution.objective, kUnits, kUnits * 1e-6) << "seed " << seed;
    numWaiting += !model.forms.getPlan(solution).waiting.empty();
  }
  printf("%u divisions, waits in %u\n", numCompared, numWaiting);
  EXPECT_GT(numWaiting, 30u);
}

/// The cheapest plan that has signatures over time only in stages in which the
/// plan to begin with has some: the one with the fewest.
TEST(IlpTest, ProvesWhatGivenStrandsCostAtLeast) {
  using Strands = std::vector<bool>;
  unsigned numCompared = 0, numDearer = 0;
  for (uint64_t seed = 1; numCompared < 100; ++seed) {
    SearchProblem problem = makeRandomProblem(seed, kOptions);
    problem.memoryLimit = std::numeric_limits<int64_t>::max();
    auto getStrands = [&](const Plan &plan) {
      Strands isOverTime(problem.operators.size());
      for (unsigned op = 0; op < plan.signatures.size(); ++op)
        if (problem.isOverTime(problem.getSignatures(op)[plan.signatures[op]]))
          isOverTime[*std::upper_bound(plan.stageEnds.begin(),
                                       plan.stageEnds.end(), op) -
                     1] = true;
      return isOverTime;
    };
    std::map<std::vector<unsigned>, std::map<Strands, Best>> all;
    auto visit = [&](const Plan &plan, const CostReport &report) {
      Best &best = all[plan.stageEnds][getStrands(plan)];
      if (best.cost == kInfinity)
        best.some = plan;
      best.cost = std::min(best.cost, report.seconds);
      return true;
    };
    uint64_t numVisited = 0;
    std::string error;
    if (problem.getNumStrands() == 1 ||
        !enumeratePlans(problem, kManyPlans, visit, numVisited, error))
      continue;
    ++numCompared;
    const auto &[stages, plans] =
        *std::next(all.begin(), Random(seed).below(all.size()));
    const auto &[strands, start] = *plans.begin();
    double least = kInfinity, leastOfAll = kInfinity;
    for (const auto &[others, best] : plans) {
      leastOfAll = std::min(leastOfAll, best.cost);
      if (std::equal(others.begin(), others.end(), strands.begin(),
                     std::less_equal<bool>()))
        least = std::min(least, best.cost);
    }
    SearchResult result = runIlp(problem, stages, {start.some});
    ASSERT_TRUE(result.plan && result.strandsBound) << result.error;
    numDearer += least > leastOfAll * (1 + 1e-6);
    EXPECT_TRUE(isClose(*result.strandsBound, least))
        << "seed " << seed << ": " << *result.strandsBound << ", expected "
        << least;
    EXPECT_TRUE(isClose(result.plan->cost, leastOfAll)) << "seed " << seed;
  }
  printf("%u plans: with other strands %u would be cheaper\n", numCompared,
         numDearer);
  EXPECT_GT(numDearer, 4u);
}

/// Under the accountings of HiDup, for the stages of the optimum, for others
/// and for such as no plan has; without stages, for those of the optimum.
TEST(IlpTest, EqualsExhaustiveUnderAccountingsOfHidup) {
  RandomOptions options = kOptions;
  options.isHidup = true;
  unsigned numCompared = 0, numCopies = 0, numImpossible = 0;
  for (uint64_t seed = 1; numCompared < 240; ++seed) {
    SearchProblem problem = makeRandomProblem(seed, options);
    problem.accounting =
        seed % 2 ? Accounting::HidupSerial : Accounting::HidupOverlapped;
    Random random(seed);
    std::optional<Pin> pin = makeRandomPin(problem, random);
    if (pin && seed % 4 < 2)
      problem = applyPin(problem, *pin);
    // Memory does not count.
    problem.memoryLimit = 1;
    BestByStages all;
    if (!enumerate(problem, all) || all.empty())
      continue;
    auto divisions = chooseDivisions(all, seed);
    for (const auto &[stages, best] : divisions) {
      SearchResult result = runIlp(problem, stages);
      ASSERT_TRUE(result.plan) << "seed " << seed << ": " << result.error;
      ++numCompared;
      numCopies += !result.plan->changes.empty();
      EXPECT_EQ(result.plan->stageEnds, stages);
      EXPECT_EQ(*result.stagesBound, result.plan->cost) << "seed " << seed;
      EXPECT_TRUE(isClose(result.plan->cost, best.cost))
          << "seed " << seed << ": " << result.plan->cost << ", expected "
          << best.cost;
    }
    unsigned numOperators = problem.operators.size();
    if (!all.count({numOperators})) {
      ++numImpossible;
      EXPECT_FALSE(runIlp(problem, {numOperators}).plan) << "seed " << seed;
    }
    SearchResult whole = runIlp(problem);
    ASSERT_TRUE(whole.plan) << "seed " << seed << ": " << whole.error;
    EXPECT_TRUE(isClose(whole.plan->cost, divisions[0].second.cost));
    EXPECT_TRUE(whole.plan->isOptimal);
  }
  printf("%u divisions: changes in %u; one stage is impossible in %u\n",
         numCompared, numCopies, numImpossible);
  EXPECT_GT(numCopies, 100u);
  EXPECT_GT(numImpossible, 20u);
}
