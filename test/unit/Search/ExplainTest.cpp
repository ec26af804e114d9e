//===- ExplainTest.cpp - explanations, computed by hand -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Small plans whose hidden and exposed seconds, peaks and next best forms were
// computed by hand, and sums that hold for every plan. Tensors are 8x4 of 4
// bytes, 128 B, so that at 1/64 s/B a change of a whole one takes 2 s and of
// one strand's half 1 s.
//
//===----------------------------------------------------------------------===//

#include "tandem/Search/Explain.h"
#include "ExplainNames.h"
#include "ProblemBuilder.h"
#include "RandomPlan.h"
#include "tandem/Search/Exhaustive.h"
#include "gtest/gtest.h"
#include <map>

using namespace tandem::cost;
using namespace tandem::cost::test;
using namespace tandem::search;

namespace {

constexpr double kTolerance = 1e-12;
constexpr Pass kForward = Pass::Forward, kBackward = Pass::Backward,
               kUpdate = Pass::Update;

struct ExplainTest : ::testing::Test {
  ProblemBuilder b;

  ExplainTest() { b.addAxis("data", 2, perByte(1.0 / 64)); }
  void addTime() { b.addTime(2, perByte(1.0 / 128)); }
  unsigned tensor(const char *name) { return b.addTensor(name, {8, 4}); }
  unsigned input(const char *name, const char *form) {
    unsigned result = tensor(name);
    b.addInput(result, {signature(form)});
    return result;
  }
  unsigned compute(Pass pass, std::vector<unsigned> operands, const char *forms,
                   double seconds, const char *name = "t") {
    unsigned result = tensor(name);
    b.addCompute(pass, std::move(operands), {result},
                 {signature(forms, seconds)});
    return result;
  }
  Plan plan(std::vector<unsigned> stageEnds) {
    Plan plan;
    plan.signatures.resize(b.problem.operators.size());
    plan.stageEnds = std::move(stageEnds);
    return plan;
  }
  Explanation ask(const Plan &plan, const ExplainOptions &options = {}) {
    std::string error;
    std::optional<Explanation> result =
        explain(b.problem, plan, options, error);
    EXPECT_TRUE(result) << error;
    return result.value_or(Explanation());
  }
  void expectExposed(const Explanation &explanation, Cause cause,
                     double seconds, unsigned numSlots) {
    for (const Exposure &entry : explanation.exposures)
      if (entry.cause == cause) {
        EXPECT_NEAR(entry.seconds, seconds, kTolerance);
        EXPECT_EQ(entry.numSlots, numSlots);
        return;
      }
    ADD_FAILURE() << "nothing is exposed because: " << describe(cause);
  }
};

/// Two strands; 2 s, then an all-gather of `change` s, then 3 s, per strand.
struct OverlapTest : ExplainTest {
  void build(double change) {
    b.problem.axes[0].rates = perByte(change / 64);
    addTime();
    unsigned x = input("x", ">00");
    unsigned y = compute(kForward, {x}, "00>00", 2, "y");
    compute(kForward, {y}, "f0>f0", 3);
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

TEST_F(OverlapTest, shortCollectivesHide) {
  build(1);
  // Slots 2, max(2, 1), max(3, 1), 3.
  Explanation e = ask(plan({2, 3}));
  EXPECT_NEAR(e.time.seconds, 10, kTolerance);
  EXPECT_NEAR(e.time.getComputation(), 10, kTolerance);
  EXPECT_NEAR(e.time.communication, 2, kTolerance);
  EXPECT_NEAR(e.time.exposed, 0, kTolerance);
  EXPECT_TRUE(e.exposures.empty());
  ASSERT_EQ(e.collectives.size(), 1u);
  EXPECT_EQ(e.collectives[0].kind, "all-gather");
  EXPECT_EQ(e.collectives[0].axis, "data");
  EXPECT_EQ(e.collectives[0].name, "y");
  // One per strand, of the half that the strand holds.
  EXPECT_EQ(e.collectives[0].count, 2u);
  EXPECT_EQ(e.collectives[0].bytes, 64);
  EXPECT_NEAR(e.collectives[0].getHiddenShare(), 1, kTolerance);
  EXPECT_EQ(e.numSplitStages, 2u);
}

TEST_F(OverlapTest, longCollectivesAreExposed) {
  build(5);
  // Slots 2, max(2, 5), max(3, 5), 3: 3 + 2 s of 10.
  Explanation e = ask(plan({2, 3}));
  EXPECT_NEAR(e.time.exposed, 5, kTolerance);
  EXPECT_NEAR(e.collectives[0].getHiddenShare(), 0.5, kTolerance);
  expectExposed(e, Cause::TooLittleComputation, 5, 2);
}

TEST_F(OverlapTest, slowedComputationIsExposed) {
  build(1);
  b.problem.computeSlowdown = 1.25;
  b.problem.collectiveSlowdown = 1.5;
  // beta = 0.3: slots max(2 + 0.3, ...), max(3 + 0.3, ...).
  Explanation e = ask(plan({2, 3}));
  expectExposed(e, Cause::SlowDown, 0.6, 2);
  EXPECT_NEAR(e.collectives[0].getHiddenShare(), 1 - 0.6 / 2, kTolerance);
}

TEST_F(ExplainTest, withoutStrandsAllIsExposed) {
  unsigned x = input("x", ">0");
  unsigned y = compute(kForward, {x}, "0>0", 2);
  compute(kForward, {y}, "f>f", 3);
  expectExposed(ask(plan({2, 3})), Cause::NoStrands, 2, 1);
}

TEST_F(ExplainTest, nothingComputesInTheFirstSlot) {
  addTime();
  unsigned x = input("x", ">00"), w = tensor("w");
  b.addResident(w, {signature(">0f")});
  compute(kForward, {x, w}, "00,ff>00", 2);
  // The gather of w is made once, for both strands.
  Explanation e = ask(plan({3}));
  EXPECT_NEAR(e.time.seconds, 6, kTolerance);
  expectExposed(e, Cause::FirstSlot, 2, 1);
  EXPECT_EQ(e.collectives[0].count, 1u);
}

TEST_F(ExplainTest, strandsThatJoinExpose) {
  addTime();
  unsigned x = input("x", ">00");
  unsigned y = compute(kForward, {x}, "00>00", 2);
  unsigned z = compute(kForward, {y}, "ff>0f", 7);
  compute(kForward, {z}, "f0>f0", 1);
  // Slots 0, 2, 2 + 2, 8 + 2, 1, 1 (CostTest, strandsJoinAndSplit).
  Explanation e = ask(plan({2, 3, 4}));
  EXPECT_NEAR(e.time.seconds, 18, kTolerance);
  EXPECT_NEAR(e.time.computation[0], 2 * 2 + 7 + 2 * 1, kTolerance);
  EXPECT_NEAR(e.time.local, 1, kTolerance);
  expectExposed(e, Cause::Join, 2, 1);
  expectExposed(e, Cause::AfterJoin, 2, 1);
}

TEST_F(ExplainTest, stagesThatAreNotSplitExpose) {
  addTime();
  unsigned x = input("x", ">00"), w = tensor("w");
  b.addResident(w, {signature(">0f")});
  compute(kForward, {x}, "00>00", 2);
  compute(kForward, {w}, "ff>ff", 3);
  expectExposed(ask(plan({3, 4})), Cause::NotSplit, 2, 1);
}

TEST_F(ExplainTest, theShorterQueueHides) {
  b.addAxis("model", 2, perByte(3.0 / 128), 1);
  unsigned x = input("x", ">0f"), y = input("y", ">f0");
  compute(kForward, {x, y}, "ff,ff>ff", 1);
  // 2 s beside 3 s on the other queue.
  Explanation e = ask(plan({3}));
  EXPECT_NEAR(e.time.communication, 5, kTolerance);
  EXPECT_NEAR(e.time.exposed, 3, kTolerance);
  ASSERT_EQ(e.collectives.size(), 2u);
  EXPECT_EQ(e.collectives[0].axis, "model");
  EXPECT_NEAR(e.collectives[0].exposed, 3, kTolerance);
  EXPECT_NEAR(e.collectives[1].exposed, 0, kTolerance);
}

/// A gradient whose all-reduce of `change` s may wait beside a later backward
/// operator of 5 s per strand.
struct WaitTest : ExplainTest {
  unsigned dw = 0;
  void build(double change) {
    addTime();
    b.problem.axes[0].rates = perByte(change / 128);
    b.problem.pieceLatency = 0.5;
    unsigned w = tensor("w");
    b.addResident(w, {signature(">ff")});
    unsigned x = input("x", ">00");
    dw = compute(kBackward, {x}, "00>rr", 3, "dw");
    compute(kBackward, {x}, "00>00", 5);
    unsigned updated = compute(kUpdate, {w, dw}, "ff,ff>ff", 1);
    unsigned output = b.addOutput(kUpdate, updated, {signature("ff>")});
    b.problem.ties.push_back({0, output});
  }
  Plan waiting() {
    Plan result = plan({3, 4, 6});
    result.waiting = {{dw, layout("ff"), kUpdate}};
    return result;
  }
};

TEST_F(WaitTest, waitingHides) {
  build(2);
  // Slots 0, 3, 4, 5, 5, 1: the fourth takes the 2 s (CostTest,
  // waitsBesideLaterComputation).
  Explanation e = ask(waiting());
  EXPECT_NEAR(e.time.seconds, 18, kTolerance);
  EXPECT_NEAR(e.time.exposed, 0, kTolerance);
  ASSERT_EQ(e.collectives.size(), 1u);
  EXPECT_TRUE(e.collectives[0].waits);
  EXPECT_EQ(e.collectives[0].name, "dw(gradient of w)");
}

TEST_F(WaitTest, whatIsLeftIsExposed) {
  build(12);
  // 4.5 s in each of two slots; 3 s are left.
  Explanation e = ask(waiting());
  expectExposed(e, Cause::LeftOver, 3, 1);
  EXPECT_NEAR(e.collectives[0].getHiddenShare(), 0.75, kTolerance);
}

TEST_F(WaitTest, thePeakHasItsTensors) {
  build(2);
  // Stage 1 (CostTest, memoryOfWaiting): w, the sum and its copy 128 B each, x
  // and the operator's result 64 B.
  Explanation e = ask(waiting());
  EXPECT_EQ(e.peak, 512);
  EXPECT_EQ(e.peakStage, 1u);
  ASSERT_EQ(e.peakEntries.size(), 5u);
  std::map<Holding::Kind, int64_t> bytes;
  for (const PeakEntry &entry : e.peakEntries)
    bytes[entry.kind] += entry.bytes;
  EXPECT_EQ(bytes[Holding::Kind::Stored], 128);
  EXPECT_EQ(bytes[Holding::Kind::Sum], 128);
  EXPECT_EQ(bytes[Holding::Kind::Copy], 128);
  EXPECT_EQ(bytes[Holding::Kind::Produced], 64 + 64);
}

TEST_F(ExplainTest, hidupHasTwoSlotsEachWay) {
  b.problem.accounting = Accounting::HidupSerial;
  b.problem.axes[0].rates = perByte(5.0 / 128);
  unsigned x = input("x", ">f");
  unsigned y = compute(kForward, {x}, "f>r", 1);
  compute(kForward, {y}, "f>f", 4);
  // docs/planner.md: 37 s; forward 4 + 1 s of the all-reduce of 5 s are beside
  // nothing, backward all 10 s.
  Explanation e = ask(plan({2, 3}));
  EXPECT_NEAR(e.time.seconds, 37, kTolerance);
  EXPECT_NEAR(e.time.computation[0], 2 * (1 + 4), kTolerance);
  EXPECT_NEAR(e.time.computation[1], 4 * 5 - 2 * 4, kTolerance);
  EXPECT_NEAR(e.time.communication, 20, kTolerance);
  expectExposed(e, Cause::SerialBackward, 10, 2);
  expectExposed(e, Cause::TooLittleComputation, 4 + 1, 2);
}

TEST(ExplainSums, holdForRandomPlans) {
  unsigned count = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomOptions options;
    options.isRich = seed % 2;
    SearchProblem problem = makeRandomProblem(seed, options);
    ChangeTable table(problem);
    Random random(seed);
    std::optional<Plan> plan = makeRandomPlan(problem, table, random);
    if (!plan)
      continue;
    ++count;
    std::string error;
    ExplainOptions cheap;
    cheap.numChoices = 0;
    std::optional<CostReport> report = cost(problem, *plan, table, error);
    std::optional<Explanation> e = explain(problem, *plan, cheap, error);
    ASSERT_TRUE(e && report) << error;
    double tolerance = 1e-9 * e->time.seconds;
    EXPECT_NEAR(e->time.seconds, e->time.getComputation() + e->time.exposed,
                tolerance)
        << seed;
    double seconds = 0, exposed = 0, byCause = 0;
    for (const Collective &entry : e->collectives) {
      seconds += entry.seconds;
      exposed += entry.exposed;
    }
    for (const Exposure &entry : e->exposures)
      byCause += entry.seconds;
    EXPECT_NEAR(seconds, e->time.communication, tolerance) << seed;
    EXPECT_NEAR(exposed, e->time.exposed, tolerance) << seed;
    EXPECT_NEAR(byCause, e->time.exposed, tolerance) << seed;
    int64_t held = 0;
    for (const PeakEntry &entry : e->peakEntries)
      held += entry.bytes;
    EXPECT_EQ(held, report->peak) << seed;
    std::vector<int64_t> bytes(report->stageBytes.size());
    std::optional<std::vector<Holding>> holdings =
        listHoldings(problem, *plan, table, error);
    ASSERT_TRUE(holdings) << error;
    for (const Holding &holding : *holdings)
      for (unsigned i = holding.first; i <= holding.last; ++i)
        bytes[i] += holding.bytes;
    EXPECT_EQ(bytes, report->stageBytes) << seed;
  }
  EXPECT_GE(count, 200u);
}

//===----------------------------------------------------------------------===//
// Forms
//===----------------------------------------------------------------------===//

/// y is made whole in 2 s or split in 1 s, and wanted whole.
struct ChoiceTest : ExplainTest {
  ChoiceTest() {
    unsigned x = input("x", ">f"), y = tensor("layers.0.y");
    b.addCompute(kForward, {x}, {y},
                 {signature("f>f", 2), signature("f>0", 1)});
    compute(kForward, {y}, "f>f", 1);
  }
  /// Asked with a search, and without.
  void expectNext(double added, double computes, double exposes, bool fits) {
    for (unsigned maxSearched : {100u, 0u}) {
      Explanation e = ask(plan({2, 3}), {10, maxSearched});
      for (const FormEntry &entry : e.forms) {
        if (entry.name != "layers.0.y")
          continue;
        EXPECT_EQ(entry.form, "full");
        EXPECT_EQ(entry.numForms, 2u);
        ASSERT_EQ(entry.choices.size(), 1u);
        const Choice &choice = entry.choices[0];
        EXPECT_EQ(choice.form, "data=gather(0)");
        EXPECT_EQ(choice.isSearched, maxSearched > 0);
        EXPECT_EQ(choice.fits, fits);
        EXPECT_NEAR(choice.seconds - e.time.seconds, added, kTolerance);
        EXPECT_NEAR(choice.computation - e.time.getComputation(), computes,
                    kTolerance);
        EXPECT_NEAR(choice.exposed - e.time.exposed, exposes, kTolerance);
        why = entry.why;
      }
    }
  }
  std::string why;
};

TEST_F(ChoiceTest, theNextBestFormIsCosted) {
  // 1 s less of computation, 2 s more for an all-gather.
  expectNext(1, -1, 2, true);
  EXPECT_EQ(why, "less exposed all-gather data");
}

TEST_F(ChoiceTest, aFasterFormMayNotFit) {
  b.problem.axes[0].rates = perByte(1.0 / 256);
  // The gather takes half a second. Whole, x and y are 256 B; split, the second
  // stage holds y, its copy and the result, 64 + 128 + 128 B.
  b.problem.memoryLimit = 256;
  expectNext(-0.5, -1, 0.5, false);
  EXPECT_EQ(why, "data=gather(0) is faster, but exceeds the memory limit");
}

TEST_F(ChoiceTest, aFasterFormIsNotHidden) {
  b.problem.axes[0].rates = perByte(1.0 / 256);
  expectNext(-0.5, -1, 0.5, true);
  EXPECT_NE(why.find("the plan is no optimum"), why.npos);
}

/// The least seconds of all plans, per tensor and layout.
using Best = std::map<std::pair<unsigned, std::string>, double>;

static Best enumerate(const SearchProblem &problem) {
  Best best;
  std::string error;
  uint64_t numVisited = 0;
  auto visit = [&](const Plan &plan, const CostReport &report) {
    for (unsigned op = 0; op < problem.operators.size(); ++op) {
      const Signature &signature =
          problem.getSignatures(op)[plan.signatures[op]];
      for (size_t i = 0; i < signature.results.size(); ++i) {
        auto key = std::make_pair(problem.operators[op].results[i],
                                  print(problem, signature.results[i]));
        auto [it, isNew] = best.try_emplace(key, report.seconds);
        it->second = std::min(it->second, report.seconds);
      }
    }
    return true;
  };
  EXPECT_TRUE(enumeratePlans(problem, 2 * kMaxExhaustivePlans, visit,
                             numVisited, error))
      << error;
  return best;
}

TEST(ExplainChoices, areTheNextBestOfAllPlans) {
  double excess = 0;
  unsigned numFirst = 0, numSecond = 0, numEstimated = 0, numBest = 0;
  for (uint64_t seed = 0; seed < 48; ++seed) {
    RandomOptions options;
    options.maxPlans = 4'000;
    SearchProblem problem = makeRandomProblem(seed, options);
    SearchResult found = searchExhaustive(problem, SearchOptions());
    ASSERT_TRUE(found.plan) << found.error;
    Best best = enumerate(problem);
    std::string error;
    std::optional<Explanation> e =
        explain(problem, *found.plan, {100, 1000}, error);
    std::optional<Explanation> estimate =
        explain(problem, *found.plan, {100, 0}, error);
    ASSERT_TRUE(e && estimate) << error;
    for (size_t i = 0; i < e->forms.size(); ++i) {
      const FormEntry &entry = e->forms[i];
      if (entry.tensors.size() != 1 || entry.choices.empty())
        continue;
      std::vector<double> others;
      for (const auto &[key, seconds] : best)
        if (key.first == entry.tensors[0] && key.second != entry.form)
          others.push_back(seconds);
      std::sort(others.begin(), others.end());
      ASSERT_GE(others.size(), entry.choices.size()) << seed;
      EXPECT_NEAR(entry.choices[0].seconds, others[0], 1e-9 * others[0])
          << seed << " " << entry.name;
      ++numFirst;
      if (entry.choices.size() > 1) {
        EXPECT_NEAR(entry.choices[1].seconds, others[1], 1e-9 * others[1])
            << seed << " " << entry.name;
        ++numSecond;
      }
      if (estimate->forms[i].choices.empty())
        continue;
      // An estimate is a plan, so that it costs at least the best one.
      double estimated = estimate->forms[i].choices[0].seconds;
      EXPECT_GE(estimated, others[0] * (1 - 1e-9)) << seed;
      ++numEstimated;
      numBest += estimated <= others[0] * (1 + 1e-9);
      excess += estimated / others[0] - 1;
    }
  }
  EXPECT_GE(numFirst, 60u);
  EXPECT_GE(numSecond, 15u);
  // Not by definition, but estimates that are never right would be useless.
  EXPECT_GE(3 * numBest, numEstimated);
  printf("%u next best forms, %u second ones; %u of %u estimates are the "
         "optimum, on average %.1f %% above it\n",
         numFirst, numSecond, numBest, numEstimated,
         100 * excess / numEstimated);
}

TEST_F(ExplainTest, equalLayersAreOneEntry) {
  for (const char *name : {"layers.0.w1", "layers.7.w1", "layers.7.w2"}) {
    unsigned w = tensor(name);
    b.addResident(w, {signature(">f")});
  }
  unsigned w = tensor("layers.8.w1");
  b.addResident(w, {signature(">0")});
  compute(kForward, {0, 1, 2, 3}, "f,f,f,0>f", 1);
  std::map<std::string, size_t> counts;
  for (const FormEntry &entry : ask(plan({5})).forms)
    if (entry.role == Role::Stored)
      counts[entry.name + " " + entry.form] = entry.tensors.size();
  EXPECT_EQ(counts,
            (std::map<std::string, size_t>{{"layers.*.w1 full", 2},
                                           {"layers.7.w2 full", 1},
                                           {"layers.8.w1 data=gather(0)", 1}}));
}

TEST(ExplainNames, onlyNumbersThatStandAlone) {
  EXPECT_EQ(getPattern("layers.12.mlp.w1"), "layers.*.mlp.w1");
  EXPECT_EQ(getPattern("nn.matmul_113(3.weight)"), "nn.matmul_*(*.weight)");
  EXPECT_EQ(mergeNames({"a.1.2", "a.1.3"}), "a.1.*");
  EXPECT_EQ(mergeNames({"a.1.2"}), "a.1.2");
}

TEST_F(ExplainTest, gradientsAreNamedByTheirParameter) {
  unsigned m = tensor("momentum.w"), w = tensor("w");
  b.addResident(m, {signature(">f")});
  b.addResident(w, {signature(">f")});
  unsigned x = input("x", ">f");
  unsigned dw = compute(kBackward, {x}, "f>f", 1, "dw");
  unsigned fresh = compute(kUpdate, {m, w, dw}, "f,f,f>f", 1, "fresh");
  Names names(b.problem);
  EXPECT_EQ(names.getLabel(dw), "dw(gradient of w)");
  EXPECT_EQ(names.getLabel(fresh), "fresh(w)");
  EXPECT_EQ(names.getLabel(x), "x");
}

//===----------------------------------------------------------------------===//
// What is left whole, and comparisons
//===----------------------------------------------------------------------===//

TEST_F(ChoiceTest, tensorsLeftWholeAreFound) {
  std::string error = findReplicated(b.problem, plan({2, 3}), 100);
  EXPECT_NE(error.find("'x' (8x4) is left whole on all devices with 128 bytes, "
                       "expected at most 100; 3 such tensors in all"),
            error.npos)
      << error;
  EXPECT_EQ(findReplicated(b.problem, plan({2, 3}), 128), "");
  b.problem.axes[0].size = 1;
  EXPECT_EQ(findReplicated(b.problem, plan({2, 3}), 100), "");
}

TEST_F(ChoiceTest, plansAreCompared) {
  Plan first = plan({2, 3}), second = plan({2, 3});
  second.signatures[1] = 1;
  std::string error;
  std::string text = compare(b.problem, first, b.problem, second, error);
  EXPECT_EQ(error, "");
  EXPECT_NE(text.find("3 s"), text.npos);
  EXPECT_NE(text.find("+1 s"), text.npos) << text;
  EXPECT_NE(text.find("-> data=gather(0)"), text.npos) << text;
  EXPECT_NE(text.find("forward all-gather data of layers.0.y"), text.npos)
      << text;
  second.stageEnds = {3};
  compare(b.problem, first, b.problem, second, error);
  EXPECT_EQ(error.find("the second plan: "), 0u) << error;
}
