//===- ExplainTest.cpp - explanations, computed by hand -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Small plans whose hidden and exposed seconds and peaks were computed by hand
// (PlanFixture.h has the sizes), and sums that hold for every plan.
//
//===----------------------------------------------------------------------===//

#include "ExplainFixture.h"
#include "ExplainNames.h"
#include "RandomPlan.h"
#include <map>

using namespace tandem::cost;
using namespace tandem::cost::test;
using namespace tandem::explain;
using namespace tandem::explain::test;

using OverlapTest = TwoStages<ExplainTest>;

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

TEST_F(ExplainTest, roundingIsNoSumOverTime) {
  addTime();
  unsigned x = input("x", ">00");
  unsigned y = compute(kForward, {x}, "00>00", 0.1);
  unsigned z = compute(kBackward, {y}, "00>00", 0.2);
  compute(kBackward, {z}, "00>00", 0.3);
  Explanation e = ask(plan({2, 3, 4}));
  EXPECT_GT(e.time.seconds, 0);
  EXPECT_EQ(e.time.local, 0);
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

/// An all-reduce that may wait beside a later backward operator.
struct WaitTest : WithGradient<ExplainTest> {
  WaitTest() { b.problem.pieceLatency = 0.5; }
  void build(double change) { WithGradient::build(change, true); }
  Plan waiting() const { return waitingPlan(); }
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
  // 64 B, and of the operator's result 32 B.
  Explanation e = ask(waiting());
  EXPECT_EQ(e.peak, 480);
  EXPECT_EQ(e.peakStage, 1u);
  ASSERT_EQ(e.peakEntries.size(), 5u);
  std::map<Holding::Kind, int64_t> bytes;
  for (const PeakEntry &entry : e.peakEntries)
    bytes[entry.kind] += entry.bytes;
  EXPECT_EQ(bytes[Holding::Kind::Stored], 128 + 64);
  EXPECT_EQ(bytes[Holding::Kind::Sum], 128);
  EXPECT_EQ(bytes[Holding::Kind::Copy], 128);
  EXPECT_EQ(bytes[Holding::Kind::Produced], 32);
}

TEST_F(ExplainTest, hidupHasTwoSlotsEachWay) {
  b.problem.accounting = Accounting::HidupSerial;
  b.problem.axes[0].rates = perByte(5.0 / 128);
  unsigned x = input("x", ">f");
  unsigned y = compute(kForward, {x}, "f>r", 1);
  compute(kForward, {y}, "f>f", 4);
  // docs/plan-files.md: 37 s; forward 4 + 1 s of the all-reduce of 5 s are
  // beside nothing, backward all 10 s.
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
    SearchProblem problem = makeRandomProblem(seed, {.isRich = seed % 2 != 0});
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
    for (unsigned stage = 0; stage < report->stageBytes.size(); ++stage) {
      std::optional<std::vector<Holding>> holdings =
          listHeldAtPeak(problem, *plan, stage, table, error);
      ASSERT_TRUE(holdings) << error;
      int64_t bytes = 0;
      for (const Holding &holding : *holdings)
        bytes += holding.bytes;
      EXPECT_EQ(bytes, report->stageBytes[stage]) << seed;
    }
  }
  EXPECT_GE(count, 200u);
}

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

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
