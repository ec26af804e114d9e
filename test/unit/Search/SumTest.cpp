//===- SumTest.cpp - additive problems ------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Ilp/IlpProgram.h"
#include "ProblemBuilder.h"
#include "RandomProblem.h"
#include "Tandem/Sums/SumMean.h"
#include "Tandem/Sums/SumSearch.h"
#include "Transformer.h"
#include "tandem/Search/Exhaustive.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <random>

using namespace tandem;
using namespace tandem::cost;
using namespace tandem::cost::test;
using namespace tandem::search;

constexpr uint64_t kMaxEntries = 1 << 22;

/// A random problem without a time axis, one queue, pieces that cost nothing.
static std::optional<SearchProblem> makeSum(uint64_t seed, uint64_t maxPlans,
                                            double pieceLatency = 0) {
  std::optional<SearchProblem> problem =
      withoutDuplex(makeRandomProblem(seed, {.maxPlans = maxPlans}));
  if (!problem)
    return std::nullopt;
  for (Axis &axis : problem->axes)
    axis.queue = 0;
  problem->pieceLatency = pieceLatency;
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

/// Messages say no more of a sum, and of each value, than looking at all
/// choices does.
TEST(SumTest, messagesAgreeWithAllChoices) {
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
    double least = std::numeric_limits<double>::infinity();
    std::vector<unsigned> choice;
    std::vector<std::vector<double>> ofValue;
    for (const SumVariable &variable : model.variables)
      ofValue.emplace_back(variable.values.size(), 1e30);
    do {
      double cost = model.getCost(prices, all.choice);
      if (cost < least) {
        least = cost;
        choice = all.choice;
      }
      for (unsigned i = 0; i < all.choice.size(); ++i)
        ofValue[i][all.choice[i]] = std::min(ofValue[i][all.choice[i]], cost);
    } while (all.next());
    double tolerance = 1e-12 * model.forbidden;
    SumDual dual(model, prices);
    double before = dual.getBound();
    for (unsigned sweep = 0; sweep < 10; ++sweep) {
      dual.sweep();
      EXPECT_GE(dual.getBound(), before - tolerance) << seed;
      before = dual.getBound();
    }
    EXPECT_LE(before, least + tolerance) << seed;
    // What a choice costs beyond the bound lies somewhere.
    double sum = 0;
    for (double excess : dual.getExcess(choice)) {
      EXPECT_GE(excess, -tolerance) << seed;
      EXPECT_LE(excess, least - before + 2 * tolerance) << seed;
      sum += excess;
    }
    EXPECT_GE(sum, least - before - 2 * tolerance) << seed;
    std::vector<std::vector<double>> bounds = dual.getLeast();
    for (unsigned i = 0; i < ofValue.size(); ++i)
      for (unsigned j = 0; j < ofValue[i].size(); ++j)
        EXPECT_LE(bounds[i][j], ofValue[i][j] + tolerance) << seed;
  }
}

/// What is left of a model costs what it costs in the whole one, and messages
/// of the one are messages of the other.
TEST(SumTest, partsOfAModelCostTheSame) {
  unsigned numCompared = 0;
  for (uint64_t seed = 1; numCompared < 40; ++seed) {
    std::optional<SearchProblem> problem = makeSum(seed, 2000);
    if (!problem)
      continue;
    ++numCompared;
    Facts facts(*problem);
    ChangeTable table(*problem);
    SumModel model(facts, table, kMaxEntries);
    std::vector<std::vector<unsigned>> values;
    for (unsigned i = 0; i < model.variables.size(); ++i) {
      values.push_back(model.variables[i].values);
      if (values.back().size() > 1)
        values.back().erase(values.back().begin() +
                            (seed + i) % values.back().size());
    }
    SumModel part(model, values);
    unsigned t = seed % facts.problem.operators.size();
    SumPrices prices = model.getPrices(t);
    SumDual whole(model, prices), dual(part, prices);
    for (unsigned sweep = 0; sweep < 3; ++sweep)
      whole.sweep();
    dual.setMessages(whole.getMessages());
    double tolerance = 1e-12 * model.forbidden;
    EXPECT_GE(dual.getBound(), whole.getBound() - tolerance) << seed;
    Choices choices(part);
    for (unsigned i = 0; i < 50; ++i) {
      std::vector<unsigned> signatures(facts.problem.operators.size());
      for (unsigned j = 0; j < choices.choice.size(); ++j)
        for (unsigned op : part.variables[j].operators)
          signatures[op] = values[j][choices.choice[j]];
      std::optional<std::vector<unsigned>> same = model.getChoice(signatures);
      ASSERT_TRUE(same);
      double cost = part.getCost(prices, choices.choice);
      EXPECT_NEAR(cost, model.getCost(prices, *same), tolerance) << seed;
      EXPECT_GE(cost, dual.getBound() - tolerance) << seed;
      SumChoice made = model.evaluate(*same);
      unsigned worst;
      EXPECT_NEAR(model.getSums(made, worst)[t], cost, tolerance) << seed;
      EXPECT_GE(made.seconds, cost - tolerance) << seed;
      if (!choices.next())
        break;
    }
  }
}

/// A chain costs what making one copy after the other costs, for each
/// combination and so for the least with each role, with all roles and some.
TEST(SumTest, chainsCostWhatTheirCopiesCost) {
  constexpr unsigned kLayouts = 5;
  constexpr double kForbidden = 1000, kPrice = 0.25;
  std::mt19937 random(7);
  for (unsigned trial = 0; trial < 30; ++trial) {
    std::vector<double> distances;
    for (unsigned i = 0; i < kLayouts * kLayouts; ++i)
      distances.push_back(i % (kLayouts + 1) == 0 ? 0
                          : random() % 8 == 0     ? kForbidden
                                                  : 1 + random() % 16);
    std::vector<SumChain::Slot> slots(4);
    std::vector<std::vector<unsigned>> kept(slots.size());
    for (unsigned i = 0; i < slots.size(); ++i) {
      // The second user takes the tensor twice, in one stage; others begin
      // stages or not.
      slots[i].mayWait.assign(i == 1 ? 2 : 1, i == 3 && trial % 2);
      slots[i].beginsStage.assign(slots[i].mayWait.size(), false);
      slots[i].beginsStage.front() = i == 0 || (trial / 2 >> i) % 2 == 0;
      for (unsigned role = 0; role < 2 + (trial + i) % 3; ++role) {
        slots[i].roles.emplace_back();
        for (size_t j = 0; j < slots[i].mayWait.size(); ++j)
          slots[i].roles.back().push_back(random() % kLayouts);
        if (role != trial % 2)
          kept[i].push_back(role);
      }
    }
    SumChain chain;
    FillWork work;
    ASSERT_TRUE(
        chain.fill(slots, distances, kLayouts, kForbidden, 1 << 20, work));
    SumChain part = chain.restrict(kept);
    auto getCost = [](const SumChain &chain,
                      const std::vector<unsigned> &roles) {
      auto [made, waiting] = chain.getSeconds(roles);
      return made + kPrice * waiting;
    };
    std::vector<std::vector<double>> offers, ofRole;
    for (const SumChain::Slot &slot : slots) {
      offers.emplace_back();
      for (size_t role = 0; role < slot.roles.size(); ++role)
        offers.back().push_back(random() % 10);
      ofRole.emplace_back(slot.roles.size(), 1e30);
    }
    std::vector<unsigned> roles(slots.size());
    for (bool isLeft = true; isLeft;) {
      // By the plainest code.
      std::vector<unsigned> copies;
      size_t numOld = 0;
      double made = 0, waiting = 0, offered = 0;
      bool isKept = true;
      for (size_t i = 0; i < slots.size(); ++i) {
        if (slots[i].beginsStage.front())
          numOld = copies.size();
        for (unsigned wanted : slots[i].roles[roles[i]]) {
          double least = copies.empty() ? 0 : kForbidden;
          if (std::find(copies.begin(), copies.end(), wanted) != copies.end())
            least = 0;
          for (size_t from = 0; from < numOld; ++from)
            least =
                std::min(least, distances[copies[from] * kLayouts + wanted]);
          bool waits = slots[i].mayWait.front() && least < kForbidden;
          (waits ? waiting : made) += least;
          copies.push_back(wanted);
        }
        offered += offers[i][roles[i]];
        isKept &= roles[i] != trial % 2;
      }
      double cost = made + kPrice * waiting;
      // More than once impossible is impossible.
      double found = getCost(chain, roles);
      if (cost < kForbidden) {
        auto seconds = chain.getSeconds(roles);
        EXPECT_NEAR(seconds.first, made, 1e-9);
        EXPECT_NEAR(seconds.second, waiting, 1e-9);
      } else {
        EXPECT_GE(found, kForbidden);
      }
      if (isKept) {
        std::vector<unsigned> left = roles;
        for (unsigned &role : left)
          role -= role > trial % 2;
        EXPECT_NEAR(getCost(part, left), found, 1e-9);
      }
      for (size_t i = 0; i < slots.size(); ++i) {
        double &least = ofRole[i][roles[i]];
        least = std::min(least, found + offered - offers[i][roles[i]]);
      }
      isLeft = false;
      for (size_t i = slots.size(); i-- > 0 && !isLeft;) {
        isLeft = ++roles[i] < slots[i].roles.size();
        if (!isLeft)
          roles[i] = 0;
      }
    }
    auto getLeast = [&](ChainMarginals &&marginals, unsigned slot) {
      std::vector<double> all, least(offers[slot].size());
      for (const std::vector<double> &own : offers)
        all.insert(all.end(), own.begin(), own.end());
      marginals.get(slot, all.data(), least.data());
      return least;
    };
    for (unsigned i = 0; i < slots.size(); ++i) {
      std::vector<double> least = getLeast(ChainMarginals(chain, kPrice), i);
      for (size_t role = 0; role < least.size(); ++role)
        EXPECT_NEAR(least[role], ofRole[i][role], 1e-9);
    }
    // What is kept between calls is as good as new.
    ChainMarginals known(chain, kPrice);
    for (unsigned i = 0; i < 40; ++i) {
      unsigned slot = random() % slots.size(), changed = random() % 8;
      EXPECT_EQ(getLeast(std::move(known), slot),
                getLeast(ChainMarginals(chain, kPrice), slot));
      if (changed >= slots.size())
        continue;
      for (double &offer : offers[changed])
        offer = random() % 10;
      known.change(changed);
    }
  }
}

/// 40 operators read a tensor, each in any of 16 layouts.
static SearchProblem makeManyReaders() {
  ProblemBuilder b;
  b.addAxis("data", 2, perByte(1.0 / 64));
  b.addAxis("model", 4, perByte(1.0 / 96));
  SignatureSet made, read;
  for (char data : {'f', '0', '1', '2'})
    for (char model : {'f', '0', '1', '2'}) {
      std::string form = {data, model};
      made.push_back(signature(">" + form));
      read.push_back(signature(form + ">ff", 1));
    }
  unsigned x = b.addTensor("x", {8, 8, 8});
  b.addInput(x, made);
  for (unsigned i = 0; i < 40; ++i)
    b.addCompute(Pass::Forward, {x}, {b.addTensor("y", {8})}, read);
  return b.problem;
}

/// Tables that are too large for what may be looked at are not made, and those
/// that are begun end where they are told to.
TEST(SumTest, tablesOfManyReadersEnd) {
  SearchProblem problem = makeManyReaders();
  Facts facts(problem);
  ChangeTable table(problem);
  SumLimits limits;
  limits.maxWork = 150'000'000;
  SumResult sums = searchSums(facts, table, {}, limits);
  EXPECT_FALSE(sums.isComplete);
  EXPECT_TRUE(sums.isTooLarge);
  EXPECT_EQ(sums.numNodes, 0u);
  EXPECT_GT(sums.work, 0u);
  EXPECT_LE(sums.work, limits.maxWork);
  unsigned calls = 0;
  SumModel model(facts, table, limits.maxEntries, {}, kInfinity,
                 [&] { return ++calls < 3; });
  EXPECT_FALSE(model.isComplete());
  EXPECT_EQ(calls, 3u);
  EXPECT_LE(model.getNumSteps(), 1u << 20);
}

/// A layout that nobody wants again is forgotten where another one is as good a
/// source: here all that the third user may find are the one that is produced
/// and the one that it wants.
TEST(SumTest, chainsForgetWhatLeadsNowhere) {
  constexpr unsigned kLayouts = 5;
  std::vector<double> distances(kLayouts * kLayouts, 2);
  for (unsigned i = 0; i < kLayouts; ++i) {
    distances[i * kLayouts + i] = 0;
    distances[i] = 1;
  }
  std::vector<SumChain::Slot> slots(3);
  for (SumChain::Slot &slot : slots) {
    slot.mayWait = {false};
    slot.beginsStage = {true};
  }
  slots[0].roles = {{0}};
  slots[1].roles = {{0}, {1}, {2}, {3}, {4}};
  slots[2].roles = {{0}, {4}};
  SumChain chain;
  FillWork work;
  ASSERT_TRUE(chain.fill(slots, distances, kLayouts, 1000, 1 << 20, work));
  EXPECT_EQ(chain.numSets, (std::vector<unsigned>{1, 1, 2}));
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
    limits.takes = [&](const Plan &plan) {
      last = plan;
      return std::numeric_limits<double>::infinity();
    };
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

/// Nor where pieces cost something; more often than not the bound is higher
/// than that of pieces that cost nothing.
TEST(SumTest, theLeastSumBoundsPlansWhosePiecesCost) {
  unsigned numCompared = 0, numHigher = 0, numReached = 0;
  for (uint64_t seed = 1; numCompared < 40; ++seed) {
    std::optional<SearchProblem> free = makeSum(seed, 3000);
    if (!free)
      continue;
    SearchResult optimum = searchExhaustive(*free, {});
    if (!optimum.plan || optimum.plan->waiting.empty())
      continue;
    ++numCompared;
    SearchProblem problem =
        *makeSum(seed, 3000, optimum.plan->cost * (seed % 2 ? 0.02 : 0.3));
    SearchResult oracle = searchExhaustive(problem, {});
    ASSERT_TRUE(oracle.plan);
    Facts facts(problem), freeFacts(*free);
    ChangeTable table(problem), freeTable(*free);
    SumResult sums = searchSums(facts, table, {}, {}),
              before = searchSums(freeFacts, freeTable, {}, {});
    double tolerance = 1e-9 * oracle.plan->cost;
    EXPECT_LE(sums.bound, oracle.plan->cost + tolerance) << "seed " << seed;
    EXPECT_GE(sums.bound, before.bound - tolerance) << "seed " << seed;
    numHigher += sums.bound > before.bound + tolerance;
    numReached += sums.bound > oracle.plan->cost - 2 * tolerance;
  }
  EXPECT_GT(numHigher, numCompared / 4);
  EXPECT_GT(numReached, numCompared / 2);
  RecordProperty("higher", std::to_string(numHigher));
  RecordProperty("reached", std::to_string(numReached));
}

/// With the stages of any plan the cheapest forms are found: those of the
/// cheapest plan that has these stages.
TEST(SumTest, formsForGivenStagesAreTheCheapest) {
  unsigned numCompared = 0, numEqual = 0, numTaking = 0;
  for (uint64_t seed = 1; numCompared < 300; ++seed) {
    std::optional<SearchProblem> free = makeSum(seed, 2000);
    if (!free)
      continue;
    SearchResult optimum = searchExhaustive(*free, {});
    if (!optimum.plan || optimum.plan->waiting.empty())
      continue;
    SearchProblem problem =
        *makeSum(seed, 2000, optimum.plan->cost * (seed % 2 ? 0.002 : 0.05));
    std::map<std::vector<unsigned>, double> least;
    auto visit = [&](const Plan &plan, const CostReport &report) {
      double &own = least.try_emplace(plan.stageEnds, 1e30).first->second;
      own = std::min(own, report.seconds);
      return true;
    };
    uint64_t numVisited = 0;
    std::string error;
    ASSERT_TRUE(enumeratePlans(problem, 1000000, visit, numVisited, error));
    Facts facts(problem);
    ChangeTable table(problem);
    unsigned number = 0;
    for (const auto &[ends, seconds] : least) {
      if (number++ % (1 + least.size() / 10))
        continue;
      ++numCompared;
      SumLimits limits;
      limits.stageEnds = ends;
      std::optional<Plan> last;
      limits.takes = [&](const Plan &plan) {
        last = plan;
        return std::numeric_limits<double>::infinity();
      };
      SumResult sums = searchSums(facts, table, {}, limits);
      ASSERT_TRUE(last) << "seed " << seed;
      EXPECT_EQ(last->stageEnds, ends) << "seed " << seed;
      EXPECT_LE(sums.bound, seconds * (1 + 1e-9)) << "seed " << seed;
      EXPECT_NEAR(sums.bound, sums.seconds, 2e-9 * seconds) << "seed " << seed;
      std::optional<CostReport> report =
          cost::cost(problem, *last, table, error);
      ASSERT_TRUE(report) << error << ", seed " << seed;
      EXPECT_GE(report->seconds, seconds * (1 - 1e-9)) << "seed " << seed;
      numEqual += report->seconds <= seconds * (1 + 1e-9);
      for (const Slot &slot : report->slots)
        if (slot.waited > 0) {
          ++numTaking;
          break;
        }
    }
  }
  // As above: a cheaper source may keep a copy from waiting.
  EXPECT_GE(numEqual, numCompared - numCompared / 20);
  EXPECT_GT(numTaking, numCompared / 6);
  RecordProperty("equal", std::to_string(numEqual));
  RecordProperty("taking", std::to_string(numTaking));
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

static SearchProblem makeLayers(int64_t layers, std::vector<int64_t> mesh) {
  TransformerOptions options;
  options.layers = layers;
  options.batch = 4;
  options.sequence = 64;
  options.width = 128;
  options.heads = 4;
  options.hidden = 512;
  options.vocabulary = 1024;
  options.filling = 0;
  options.strands = 1;
  options.mesh = std::move(mesh);
  options.flops = 1e12;
  options.network = 5e9;
  SearchProblem problem = makeTransformer(options);
  problem.pieceLatency = 0;
  for (Axis &axis : problem.axes)
    axis.queue = 0;
  return problem;
}

/// Tables are made as long as what may be looked at is enough for
/// `kLeastSumSweeps` of them.
TEST(SumTest, tablesLeaveWorkForSweeps) {
  SearchProblem problem = makeLayers(1, {4});
  Facts facts(problem);
  ChangeTable table(problem);
  SumModel model(facts, table, kMaxTableEntries);
  ASSERT_TRUE(model.isComplete());
  uint64_t size = 0;
  for (const SumTable &own : model.tables)
    size += own.getSize();
  SumLimits limits;
  limits.maxNodes = 1;
  uint64_t sweeps = 2 * kChainPasses * kLeastSumSweeps;
  limits.maxWork = sweeps * size;
  EXPECT_FALSE(searchSums(facts, table, {}, limits).isTooLarge);
  limits.maxWork = sweeps * (size - 1);
  EXPECT_TRUE(searchSums(facts, table, {}, limits).isTooLarge);
}

/// On layers of a transformer Tandem's search proves its plans, and the integer
/// program, which shares no code with it, agrees.
static void compareWithIlp(const SearchProblem &problem) {
  SearchResult tandem = searchTandem(problem, {});
  ASSERT_TRUE(tandem.plan) << tandem.error;
  EXPECT_TRUE(tandem.plan->isOptimal);
  SearchResult ilp = searchIlp(problem, {});
  ASSERT_TRUE(ilp.plan) << ilp.error;
  EXPECT_TRUE(ilp.plan->isOptimal);
  EXPECT_NEAR(tandem.plan->cost, ilp.plan->cost, 1e-6 * ilp.plan->cost);
}

TEST(SumTest, twoLayersAreSolvedAsTheIntegerProgramSolvesThem) {
  compareWithIlp(makeLayers(2, {4}));
}

/// Tables of all combinations would be too large.
TEST(SumTest, twoAxesAreSolvedAsTheIntegerProgramSolvesThem) {
  compareWithIlp(makeLayers(1, {2, 2}));
}

/// Where pieces cost, every cut of a plan gains something, and no other forms
/// are cheaper with its stages.
TEST(SumTest, plansHaveTheFewestStagesAndTheCheapestForms) {
  SearchProblem problem = makeLayers(2, {4});
  problem.pieceLatency = 5e-6;
  SearchResult tandem = searchTandem(problem, {});
  ASSERT_TRUE(tandem.plan) << tandem.error;
  const Plan &plan = *tandem.plan;
  EXPECT_FALSE(plan.isOptimal);
  Facts facts(problem);
  ChangeTable table(problem);
  std::string error;
  for (size_t i = 0; i + 1 < plan.stageEnds.size(); ++i) {
    Plan joined = plan;
    joined.stageEnds.erase(joined.stageEnds.begin() + i);
    std::optional<CostReport> report =
        cost::cost(problem, joined, table, error);
    EXPECT_TRUE(!report || report->seconds > plan.cost) << plan.stageEnds[i];
  }
  SumLimits limits;
  limits.stageEnds = plan.stageEnds;
  limits.upperBound = plan.cost * (1 - 1e-6);
  SumResult sums = searchSums(facts, table, {}, limits);
  EXPECT_TRUE(sums.isComplete);
  EXPECT_GE(sums.bound, limits.upperBound * (1 - 1e-8));
}

TEST(SumTest, twoLayersOnTwoAxesAreProven) {
  SearchResult tandem = searchTandem(makeLayers(2, {2, 2}), {});
  ASSERT_TRUE(tandem.plan) << tandem.error;
  EXPECT_TRUE(tandem.plan->isOptimal);
}
