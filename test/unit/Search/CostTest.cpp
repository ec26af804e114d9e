//===- CostTest.cpp - costs of tiny plans, computed by hand ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every number was computed by hand from the definition in
// include/tandem/Cost/Cost.h; the arithmetic stands beside it. Tensors are
// 8x4 of 4 bytes, 128 B, so that at 1/64 s/B a change of a whole one takes 2 s
// and of one strand's half 1 s.
//
//===----------------------------------------------------------------------===//

#include "ProblemBuilder.h"
#include "gtest/gtest.h"

using namespace tandem::cost;
using namespace tandem::cost::test;

namespace {

constexpr double kTolerance = 1e-12;
constexpr Pass kForward = Pass::Forward, kBackward = Pass::Backward,
               kUpdate = Pass::Update;

/// A problem with a space axis `data` of size 2, maybe a time axis of size 2,
/// and plans that take the only signature of each operator.
struct CostTest : ::testing::Test {
  ProblemBuilder b;

  CostTest() { b.addAxis("data", 2, perByte(1.0 / 64)); }
  void addTime() { b.addTime(2, perByte(1.0 / 128)); }
  void setSlowdowns(double compute, double collective) {
    b.problem.computeSlowdown = compute;
    b.problem.collectiveSlowdown = collective;
  }
  unsigned tensor(const char *name) { return b.addTensor(name, {8, 4}); }
  unsigned input(const char *name, const char *form) {
    unsigned result = tensor(name);
    b.addInput(result, {signature(form)});
    return result;
  }
  unsigned resident(const char *name, const char *form) {
    unsigned result = tensor(name);
    b.addResident(result, {signature(form)});
    return result;
  }
  unsigned compute(Pass pass, std::vector<unsigned> operands, const char *forms,
                   double seconds, int64_t workspace = 0) {
    unsigned result = tensor("t");
    b.addCompute(pass, std::move(operands), {result},
                 {signature(forms, seconds, workspace)});
    return result;
  }

  Plan plan(std::vector<unsigned> stageEnds) {
    Plan plan;
    plan.signatures.resize(b.problem.operators.size());
    plan.stageEnds = std::move(stageEnds);
    return plan;
  }
  CostReport ask(const Plan &plan) {
    ChangeTable table(b.problem);
    std::string error;
    std::optional<CostReport> report = cost(b.problem, plan, table, error);
    EXPECT_TRUE(report) << error;
    return report.value_or(CostReport());
  }
  std::string askError(const Plan &plan) {
    ChangeTable table(b.problem);
    std::string error;
    EXPECT_FALSE(cost(b.problem, plan, table, error));
    EXPECT_EQ(error.find('\n'), error.npos) << error;
    return error;
  }
  void expectSlots(const CostReport &report, std::vector<double> seconds) {
    ASSERT_EQ(report.slots.size(), seconds.size());
    for (size_t i = 0; i < seconds.size(); ++i)
      EXPECT_NEAR(report.slots[i].seconds, seconds[i], kTolerance) << i;
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

TEST_F(CostTest, withoutTimeAllAddsUp) {
  unsigned x = input("x", ">0");
  unsigned y = compute(kForward, {x}, "0>0", 2);
  compute(kForward, {y}, "f>f", 3);
  CostReport report = ask(plan({2, 3}));
  // Nothing, then 2 s beside the all-gather's 2 s in a serial slot, then 3 s.
  expectSlots(report, {0, 4, 3});
  EXPECT_NEAR(report.seconds, 7, kTolerance);
  ASSERT_EQ(report.changes.size(), 1u);
  EXPECT_EQ(report.changes[0],
            (CopyChange{1, {y, layout("f"), kForward}, layout("0"), false}));
  EXPECT_EQ(report.stageStrands, (std::vector<unsigned>{1, 1}));
}

TEST_F(CostTest, argumentsExistBeforeTheFirstStage) {
  unsigned x = input("x", ">0");
  compute(kForward, {x}, "f>f", 3);
  // The all-gather is in the first step, beside nothing.
  CostReport report = ask(plan({2}));
  expectSlots(report, {2, 3});
}

struct TwoStageTest : CostTest {
  /// Two strands; 2 s, then a collective of `change` s, then 3 s, per strand.
  void build(double change) {
    b.problem.axes[0].rates = perByte(change / 64);
    addTime();
    unsigned x = input("x", ">00");
    unsigned y = compute(kForward, {x}, "00>00", 2);
    compute(kForward, {y}, "f0>f0", 3);
  }
};

TEST_F(TwoStageTest, strandsOverlap) {
  build(1);
  CostReport report = ask(plan({2, 3}));
  // Steps (0, 2) (0, 2) (1, 3) (1, 3): max(0, 0), max(2, 0), max(2, 1),
  // max(3, 1), 3.
  expectSlots(report, {0, 2, 2, 3, 3});
  EXPECT_NEAR(report.seconds, 10, kTolerance);
  ASSERT_EQ(report.steps.size(), 4u);
  EXPECT_NEAR(report.steps[2].collective, 1, kTolerance);
  EXPECT_NEAR(report.steps[2].computation, 3, kTolerance);
  EXPECT_EQ(report.steps[3].stage, 1u);
  EXPECT_EQ(report.steps[3].strand, 1u);
  for (unsigned slot : {2u, 3u})
    EXPECT_FALSE(report.slots[slot].isSerial);
}

TEST_F(TwoStageTest, communicationIsTheLongerSide) {
  build(5);
  expectSlots(ask(plan({2, 3})), {0, 2, 5, 5, 3});
}

TEST_F(TwoStageTest, slowDownsOfBothSides) {
  build(1);
  setSlowdowns(1.25, 1.5);
  // beta = 1.5 (1 - 1 / 1.25) = 0.3, gamma = 1.25 (1 - 1 / 1.5) = 5 / 12:
  // max(2 + 0.3, 1 + 10 / 12) = 2.3, max(3 + 0.3, 1 + 15 / 12) = 3.3.
  expectSlots(ask(plan({2, 3})), {0, 2, 2.3, 3.3, 3});
}

TEST_F(TwoStageTest, slowDownsWhereCommunicationIsLonger) {
  build(5);
  setSlowdowns(1.25, 1.5);
  // max(2 + 1.5, 5 + 10 / 12) and max(3 + 1.5, 5 + 15 / 12).
  expectSlots(ask(plan({2, 3})), {0, 2, 5 + 10.0 / 12, 6.25, 3});
}

TEST_F(TwoStageTest, slowDownsAreNoWorseThanSerial) {
  build(1);
  setSlowdowns(2, 3);
  // b (1 - 1 / a) = 1.5 and a (1 - 1 / b) = 4 / 3 count as 1.
  expectSlots(ask(plan({2, 3})), {0, 2, 3, 4, 3});
}

TEST_F(TwoStageTest, fourStrands) {
  b.problem.axes[0].rates = perByte(1.0 / 32);
  b.addTime(4, perByte(1));
  unsigned x = input("x", ">00");
  unsigned y = compute(kForward, {x}, "00>00", 2);
  compute(kForward, {y}, "f0>f0", 3);
  // A strand's share is 32 B: 1 s. 2 s four times, of which the last lies
  // beside the first collective, then 3 s four times.
  CostReport report = ask(plan({2, 3}));
  expectSlots(report, {0, 2, 2, 2, 2, 3, 3, 3, 3});
  EXPECT_EQ(report.stageStrands, (std::vector<unsigned>{4, 4}));
}

//===----------------------------------------------------------------------===//
// Strands
//===----------------------------------------------------------------------===//

TEST_F(CostTest, strandsJoinAndSplit) {
  addTime();
  unsigned x = input("x", ">00");
  unsigned y = compute(kForward, {x}, "00>00", 2);
  unsigned z = compute(kForward, {y}, "ff>0f", 7);
  compute(kForward, {z}, "f0>f0", 1);
  CostReport report = ask(plan({2, 3, 4}));
  EXPECT_EQ(report.stageStrands, (std::vector<unsigned>{2, 1, 2}));
  // Steps: (0, 2) (0, 2); one strand gathers both halves, 1 s each, computes 7
  // s and puts 128 B together in 1 s: (2, 8); the gather of the whole (128 B, 2
  // s, before the slice over time) is made once: (2, 1) (0, 1). The third slot
  // is serial since step 3 has one strand, the fourth since it is behind one.
  expectSlots(report, {0, 2, 4, 10, 1, 1});
  EXPECT_TRUE(report.slots[2].isSerial);
  EXPECT_TRUE(report.slots[3].isSerial);
  EXPECT_FALSE(report.slots[4].isSerial);
}

TEST_F(CostTest, oneStrandDoesTheWorkOfAll) {
  addTime();
  unsigned x = input("x", ">00");
  unsigned y = compute(kForward, {x}, "00>00", 2);
  compute(kForward, {y}, "ff>ff", 7);
  compute(kForward, {y}, "00>00", 1.5);
  // The second stage: 2 s of gathers, 7 + 1 + 2 * 1.5 s of computation.
  expectSlots(ask(plan({2, 4})), {0, 2, 4, 11});
}

TEST_F(CostTest, fullOverTimeCountsInTheFirstStrand) {
  addTime();
  unsigned x = input("x", ">00"), w = resident("w", ">0f");
  compute(kForward, {x, w}, "00,ff>00", 2);
  compute(kForward, {w}, "ff>ff", 3);
  // Steps (2, 2 + 3) (0, 2).
  CostReport report = ask(plan({4}));
  expectSlots(report, {2, 5, 2});
  EXPECT_EQ(report.stageStrands, (std::vector<unsigned>{2}));
}

TEST_F(CostTest, fullOverTimeAloneIsOneStrand) {
  addTime();
  unsigned x = input("x", ">00"), w = resident("w", ">0f");
  compute(kForward, {x}, "00>00", 2);
  unsigned m = compute(kForward, {w}, "ff>ff", 3);
  compute(kForward, {m, x}, "ff,00>00", 4);
  // (0, 2) (0, 2) (2, 3) (0, 4) (0, 4); steps 3 and 4 are serial.
  CostReport report = ask(plan({3, 4, 5}));
  EXPECT_EQ(report.stageStrands, (std::vector<unsigned>{2, 1, 2}));
  expectSlots(report, {0, 2, 4, 3, 4, 4});
}

//===----------------------------------------------------------------------===//
// Queues and sequences
//===----------------------------------------------------------------------===//

struct MeshTest : CostTest {
  MeshTest() { b.addAxis("model", 2, perByte(1.0 / 64)); }
};

TEST_F(MeshTest, queuesRunBesideOneAnother) {
  b.problem.axes[1].queue = 1;
  b.problem.axes[1].rates = perByte(3.0 / 128);
  unsigned x = input("x", ">0f"), y = input("y", ">f0");
  compute(kForward, {x, y}, "ff,ff>ff", 1);
  expectSlots(ask(plan({3})), {3, 1}); // max(2, 3)
}

TEST_F(MeshTest, oneQueueAddsUp) {
  b.problem.axes[1].rates = perByte(3.0 / 128);
  unsigned x = input("x", ">0f"), y = input("y", ">f0");
  compute(kForward, {x, y}, "ff,ff>ff", 1);
  expectSlots(ask(plan({3})), {5, 1});
}

TEST_F(MeshTest, onlyTheInnermostAxisChanges) {
  unsigned x = input("x", ">00");
  compute(kForward, {x}, "ff>ff", 0);
  // model, 64 B, then data, 128 B.
  expectSlots(ask(plan({2})), {1 + 2, 0});

  ProblemBuilder other = b;
  other.problem.signatureSets[1] = {signature("f0>f0", 0)};
  b = other;
  // data cannot leave before model: the same two, and a slice.
  expectSlots(ask(plan({2})), {1 + 2, 0});

  ChangeTable table(b.problem);
  std::vector<AxisChange> sequence =
      table.getSequence(x, layout("00"), layout("f0"));
  ASSERT_EQ(sequence.size(), 3u);
  EXPECT_EQ(sequence[0].axis, 1u);
  EXPECT_EQ(sequence[0].bytes, 64);
  EXPECT_EQ(sequence[1].axis, 0u);
  EXPECT_EQ(sequence[1].bytes, 128);
  EXPECT_EQ(sequence[2].axis, 1u);
  EXPECT_EQ(sequence[2].seconds, 0);
}

TEST_F(MeshTest, theCheapestSequence) {
  // Latency 10 s for an all-reduce; a reduce-scatter and an all-gather over
  // model are cheaper: 128 B each way. Bytes are those with model full.
  b.problem.axes[1].rates[static_cast<unsigned>(Change::AllReduce)] = {10, 0};
  unsigned x = input("x", ">fr");
  compute(kForward, {x}, "ff>ff", 0);
  expectSlots(ask(plan({2})), {2 + 2, 0});
}

TEST_F(CostTest, kindsOfChanges) {
  b.problem.axes[0].rates = {ChangeRate{1, 1.0 / 128}, ChangeRate{2, 1.0 / 128},
                             ChangeRate{5, 2.0 / 128},
                             ChangeRate{4, 1.0 / 256}};
  unsigned x = tensor("x");
  ChangeTable table(b.problem);
  auto seconds = [&](const char *from, const char *to) {
    const ChangeCost &change = table.getCost(x, layout(from), layout(to));
    return change.isPossible ? change.getTotal(1) : -1;
  };
  EXPECT_NEAR(seconds("f", "0"), 0, kTolerance);
  EXPECT_NEAR(seconds("0", "f"), 1 + 1, kTolerance);
  EXPECT_NEAR(seconds("r", "1"), 2 + 1, kTolerance);
  // Reduce-scatter and all-gather, 3 + 2 s, against an all-reduce of 5 + 2.
  EXPECT_NEAR(seconds("r", "f"), 5, kTolerance);
  // All-gather and slice, 2 s, against an all-to-all of 4 + 0.5.
  EXPECT_NEAR(seconds("0", "1"), 2, kTolerance);
  EXPECT_EQ(seconds("f", "r"), -1);
  EXPECT_EQ(seconds("0", "r"), -1);
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

TEST_F(CostTest, aCopyIsMadeOnceForAPass) {
  unsigned x = input("x", ">0");
  compute(kForward, {x}, "f>f", 1);
  compute(kForward, {x}, "f>f", 1);
  // 2 s of gather, once, whether the users share a stage or not.
  expectSlots(ask(plan({3})), {2, 2});
  expectSlots(ask(plan({2, 3})), {2, 1, 1});
}

TEST_F(CostTest, aCopyComesFromTheCheapestLayoutThatExisted) {
  unsigned x = input("x", ">0");
  compute(kForward, {x}, "f>f", 1);
  compute(kForward, {x}, "1>1", 1);
  b.problem.axes[0].rates[static_cast<unsigned>(Change::AllToAll)] = {
      0, 1.0 / 128};
  // The second copy is a slice of the first, made in an earlier stage ...
  CostReport report = ask(plan({2, 3}));
  expectSlots(report, {2, 1, 1});
  EXPECT_EQ(report.changes[1].from, layout("f"));
  // ... but not of one made in the same stage: 1 s of all-to-all.
  report = ask(plan({3}));
  expectSlots(report, {3, 2});
  ASSERT_EQ(report.changes.size(), 2u);
  for (const CopyChange &change : report.changes)
    EXPECT_EQ(change.from, layout("0"));
}

TEST_F(CostTest, ofEqualSourcesTheProducersIsTaken) {
  unsigned x = input("x", ">f");
  compute(kForward, {x}, "0>0", 1);
  b.problem.axes[0].rates = perByte(0);
  compute(kForward, {x}, "1>1", 1);
  CostReport report = ask(plan({2, 3}));
  ASSERT_EQ(report.changes.size(), 2u);
  EXPECT_EQ(report.changes[1].from, layout("f"));
}

TEST_F(CostTest, aPassMakesItsOwnCopiesUnlessTheyAreKept) {
  unsigned w = resident("w", ">0");
  unsigned y = compute(kForward, {w}, "f>f", 1);
  unsigned z = compute(kForward, {y}, "f>f", 1);
  compute(kBackward, {w, z}, "f,f>f", 1);
  Plan twice = plan({2, 3, 4});
  CostReport report = ask(twice);
  expectSlots(report, {2, 1, 1 + 2, 1});
  ASSERT_EQ(report.changes.size(), 2u);
  // Resident 64 B. Stage 1 has the copy of w and y, stage 2 y and z, stage 3
  // the copy, z and its result.
  EXPECT_EQ(report.stageBytes,
            (std::vector<int64_t>{64 + 256, 64 + 256, 64 + 384}));
  EXPECT_EQ(report.peak, 448);

  Plan kept = twice;
  kept.kept = {{w, layout("f"), kForward}};
  report = ask(kept);
  expectSlots(report, {2, 1, 1, 1});
  EXPECT_EQ(report.changes.size(), 1u);
  // The copy lives through stage 2 as well.
  EXPECT_EQ(report.stageBytes,
            (std::vector<int64_t>{64 + 256, 64 + 384, 64 + 384}));
}

TEST_F(CostTest, aKeptCopyIsASource) {
  unsigned w = resident("w", ">0");
  unsigned y = compute(kForward, {w}, "f>f", 1);
  compute(kBackward, {w, y}, "1,f>f", 1);
  Plan plan = this->plan({2, 3});
  expectSlots(ask(plan), {2, 1 + 2, 1}); // all-gathers again, and slices
  plan.kept = {{w, layout("f"), kForward}};
  CostReport report = ask(plan);
  expectSlots(report, {2, 1, 1});
  EXPECT_EQ(report.changes[1].from, layout("f"));
}

TEST_F(CostTest, aKeptCopyEndsWithTheNextPassThatUsesItsTensor) {
  unsigned w = resident("w", ">0");
  unsigned y = compute(kForward, {w}, "f>f", 1);
  unsigned dy = compute(kBackward, {w, y}, "f,f>f", 1);
  unsigned z = compute(kBackward, {dy}, "f>f", 1);
  compute(kUpdate, {w, z}, "f,f>f", 1);
  Plan plan = this->plan({2, 3, 4, 5});
  plan.kept = {{w, layout("f"), kForward}};
  CostReport report = ask(plan);
  // The update gathers again.
  expectSlots(report, {2, 1, 1, 1 + 2, 1});
}

TEST_F(CostTest, keepingWhatIsNotMadeIsAnError) {
  unsigned w = resident("w", ">0");
  unsigned y = compute(kForward, {w}, "f>f", 1);
  compute(kBackward, {w, y}, "f,f>f", 1);
  Plan plan = this->plan({2, 3});
  plan.kept = {{w, layout("1"), kForward}};
  EXPECT_NE(askError(plan).find("w"), std::string::npos);
  // There is no later pass for a copy of the backward pass.
  plan.kept = {{w, layout("f"), kBackward}};
  EXPECT_NE(askError(plan).find("w"), std::string::npos);
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

struct GradientTest : CostTest {
  unsigned dw;

  /// A gradient of 3 s per strand, summed over time in 1 s and over data in
  /// `change` s, maybe more of the backward pass, and its update of 1 s.
  void build(double change, bool hasMore) {
    b.problem.axes[0].rates = perByte(change / 128);
    addTime();
    unsigned x = input("x", ">00"), w = resident("w", ">ff");
    dw = compute(kBackward, {x}, "00>rr", 3);
    if (hasMore)
      compute(kBackward, {x}, "00>00", 5);
    unsigned updated = compute(kUpdate, {w, dw}, "ff,ff>ff", 1);
    unsigned output = b.addOutput(kUpdate, updated, {signature("ff>")});
    b.problem.ties.push_back({1, output});
  }
  Plan waitingPlan() {
    Plan plan = this->plan({3, 4, 6});
    plan.waiting = {{dw, layout("ff"), kUpdate}};
    return plan;
  }
};

TEST_F(GradientTest, areSummedInTheLastStrandsComputation) {
  build(2, false);
  CostReport report = ask(plan({3, 5}));
  // (0, 3) (0, 3 + 1) (2, 1).
  EXPECT_EQ(report.stageStrands, (std::vector<unsigned>{2, 1}));
  expectSlots(report, {0, 3, 4 + 2, 1});
  ASSERT_EQ(report.changes.size(), 1u);
  EXPECT_EQ(report.changes[0].from, layout("rf"));
  // Stage 1: w, x of both strands, twice the gradient, and the sum; stage 2: w,
  // the sum, the reduced gradient; the new value is written in place.
  EXPECT_EQ(report.stageBytes.back(), 128 + 128 + 128);
}

TEST_F(GradientTest, haveToBeSummedBeforeAnUpdate) {
  build(2, false);
  EXPECT_FALSE(askError(plan({5})).empty());
}

TEST_F(GradientTest, ofATensorReadTwiceOverTimeAreSummedAtItsProducer) {
  build(2, false);
  // The summed layout is what every update takes: sliced, it costs nothing.
  b.problem.signatureSets[3] = {signature("ff,0f>ff", 1)};
  CostReport report = ask(plan({3, 5}));
  expectSlots(report, {0, 3, 4 + 2, 1});
}

TEST_F(GradientTest, waitsBesideLaterComputation) {
  build(2, true);
  b.problem.pieceLatency = 0.5;
  CostReport report = ask(waitingPlan());
  // (0, 3) (0, 4) (0, 5) (0, 5) (0, 1). The queue gets its 2 s when the third
  // slot, with the second strand's gradient, ends; the fourth takes them.
  expectSlots(report, {0, 3, 4, 5, 5, 1});
  EXPECT_NEAR(report.slots[3].waited, 2, kTolerance);
  EXPECT_NEAR(report.slots[4].waited, 0, kTolerance);
  EXPECT_NEAR(report.exposedWait, 0, kTolerance);
  EXPECT_NEAR(report.seconds, 18, kTolerance);
  ASSERT_EQ(report.changes.size(), 1u);
  EXPECT_TRUE(report.changes[0].waits);
  // Without waiting: 2 s more.
  EXPECT_NEAR(ask(plan({3, 4, 6})).seconds, 20, kTolerance);
}

TEST_F(GradientTest, whatDoesNotFitIsExposed) {
  build(12, true);
  b.problem.pieceLatency = 0.5;
  CostReport report = ask(waitingPlan());
  // The fourth slot takes 5 - 0.5 s, the fifth, serial, 5 - 0.5 s: 3 s are left
  // before the update.
  EXPECT_NEAR(report.slots[3].waited, 4.5, kTolerance);
  EXPECT_NEAR(report.slots[4].waited, 4.5, kTolerance);
  EXPECT_NEAR(report.exposedWait, 3, kTolerance);
  EXPECT_NEAR(report.seconds, 18 + 3, kTolerance);
}

TEST_F(GradientTest, waitingSlowsComputationDown) {
  build(12, true);
  b.problem.pieceLatency = 0.5;
  setSlowdowns(1.25, 1.5);
  CostReport report = ask(waitingPlan());
  // beta = 0.3, gamma = 5 / 12: room 5 (7 / 12) / 0.7 = 25 / 6 in both slots,
  // less 0.5; both grow by 0.3 of what they take.
  double taken = 25.0 / 6 - 0.5;
  expectSlots(report, {0, 3, 4, 5 + 0.3 * taken, 5 + 0.3 * taken, 1});
  EXPECT_NEAR(report.slots[3].waited, taken, kTolerance);
  EXPECT_NEAR(report.slots[4].waited, taken, kTolerance);
  EXPECT_NEAR(report.exposedWait, 12 - 2 * taken, kTolerance);
  EXPECT_NEAR(report.seconds, 18 + 0.6 * taken + 12 - 2 * taken, kTolerance);
}

TEST_F(GradientTest, computationSlowsWaitingDown) {
  build(12, true);
  setSlowdowns(1, 1.5);
  CostReport report = ask(waitingPlan());
  // beta = 0, gamma = 1 - 1 / 1.5 = 1 / 3: room 5 (2 / 3) in the overlapped and
  // in the serial slot, which do not grow.
  expectSlots(report, {0, 3, 4, 5, 5, 1});
  EXPECT_NEAR(report.slots[3].waited, 10.0 / 3, kTolerance);
  EXPECT_NEAR(report.slots[4].waited, 10.0 / 3, kTolerance);
  EXPECT_NEAR(report.exposedWait, 12 - 20.0 / 3, kTolerance);
}

TEST_F(GradientTest, memoryOfWaiting) {
  build(2, true);
  CostReport report = ask(waitingPlan());
  // w 128 B; x 64 B of both strands, alive while it is read. Stage 0: the terms
  // of both strands, of which one becomes the sum. Stage 1: the sum, its copy
  // from the slot that takes it, and the operator's result. Stage 2: the copy;
  // the new value is written in place.
  EXPECT_EQ(report.stageBytes,
            (std::vector<int64_t>{128 + 64 + 256, 128 + 64 + 128 + 128 + 64,
                                  128 + 128}));
}

TEST_F(GradientTest, withoutOverlapAllWaitingIsExposed) {
  build(12, true);
  setSlowdowns(2, 3);
  CostReport report = ask(waitingPlan());
  EXPECT_NEAR(report.exposedWait, 12, kTolerance);
  EXPECT_NEAR(report.seconds, 18 + 12, kTolerance);
}

TEST_F(GradientTest, shortRoomTakesNothing) {
  build(12, true);
  b.problem.pieceLatency = 6;
  CostReport report = ask(waitingPlan());
  EXPECT_NEAR(report.exposedWait, 12, kTolerance);
}

TEST_F(GradientTest, roomIsWhatCollectivesLeave) {
  // The later backward operator takes a collective of 3 s per strand.
  build(12, true);
  b.problem.signatureSets[3] = {signature("10>10", 5)};
  b.problem.axes[0].rates[static_cast<unsigned>(Change::AllToAll)] = {3, 0};
  CostReport report = ask(waitingPlan());
  // (0, 3) (0, 4) (3, 5) (3, 5) (0, 1): the fourth slot has 5 - 3 s of room,
  // the fifth 5 s.
  expectSlots(report, {0, 3, 4, 5, 5, 1});
  EXPECT_NEAR(report.slots[3].waited, 2, kTolerance);
  EXPECT_NEAR(report.slots[4].waited, 5, kTolerance);
  EXPECT_NEAR(report.exposedWait, 5, kTolerance);
}

TEST_F(GradientTest, onlyGradientsWait) {
  build(2, true);
  Plan plan = this->plan({3, 4, 6});
  plan.waiting = {{1, layout("0f"), kUpdate}};
  EXPECT_FALSE(askError(plan).empty());
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

TEST_F(CostTest, memoryOfStages) {
  unsigned x = input("x", ">0"), w = resident("w", ">0");
  unsigned y = compute(kForward, {x, w}, "0,f>0", 1, 1000);
  unsigned z = compute(kForward, {y}, "f>f", 1, 300);
  compute(kForward, {z}, "f>f", 1, 400);
  CostReport report = ask(plan({3, 5}));
  // w whole is 128 B, half 64 B; x is an argument, alive while it is read.
  // Stage 1: x, copy of w, y and the workspace. Stage 2: y, its copy, z, the
  // result, and the larger workspace.
  EXPECT_EQ(report.stageBytes,
            (std::vector<int64_t>{64 + 64 + 128 + 64 + 1000,
                                  64 + 64 + 128 + 128 + 128 + 400}));
  EXPECT_EQ(report.peak, 64 + 1256);
}

TEST_F(CostTest, aCopyLivesUntilTheLastUseOfItsTensorInThePass) {
  unsigned w = resident("w", ">0");
  compute(kForward, {w}, "f>f", 1);
  compute(kForward, {w}, "0>0", 1);
  unsigned x = compute(kForward, {w}, "0>0", 1);
  compute(kForward, {x}, "0>0", 1);
  CostReport report = ask(plan({2, 3, 4, 5}));
  // The whole copy, 128 B, lives in three stages though only the first reads
  // it. Results that nothing reads live in their stage.
  EXPECT_EQ(report.stageBytes,
            (std::vector<int64_t>{64 + 128 + 128, 64 + 128 + 64, 64 + 128 + 64,
                                  64 + 64 + 64}));
}

TEST_F(CostTest, bytesOfLayouts) {
  addTime();
  unsigned x = tensor("x");
  auto bytes = [&](const char *text) {
    return b.problem.getBytes(x, layout(text));
  };
  EXPECT_EQ(bytes("ff"), 128);
  EXPECT_EQ(bytes("0f"), 64);
  EXPECT_EQ(bytes("rf"), 128);
  // Split over time a device holds all strands; as a sum, each of them.
  EXPECT_EQ(bytes("f0"), 128);
  EXPECT_EQ(bytes("fr"), 256);
  EXPECT_EQ(bytes("1r"), 128);
}

//===----------------------------------------------------------------------===//
// What is not legal
//===----------------------------------------------------------------------===//

TEST_F(CostTest, aTensorIsTakenAsItIsInTheStageThatMakesIt) {
  unsigned x = input("x", ">0");
  unsigned y = compute(kForward, {x}, "0>0", 2);
  compute(kForward, {y}, "f>f", 3);
  EXPECT_NE(askError(plan({3})).find("data=gather(0)"), std::string::npos);
}

TEST_F(CostTest, noChangeMakesATerm) {
  unsigned x = input("x", ">0");
  unsigned y = compute(kForward, {x}, "0>0", 2);
  compute(kForward, {y}, "r>r", 3);
  EXPECT_NE(askError(plan({2, 3})).find("reduce"), std::string::npos);
}

TEST_F(CostTest, decisionsOutOfRange) {
  unsigned x = input("x", ">0");
  compute(kForward, {x}, "0>0", 2);
  Plan plan = this->plan({2});
  plan.signatures = {0, 1};
  EXPECT_NE(askError(plan).find("signature 1"), std::string::npos);
  plan.signatures = {0};
  askError(plan);
  for (std::vector<unsigned> ends :
       {std::vector<unsigned>{}, {1}, {3}, {1, 1, 2}, {2, 1}})
    askError(this->plan(ends));
}

TEST_F(CostTest, tiedOperatorsTakeOneIndex) {
  unsigned w = tensor("w"), v = tensor("v");
  unsigned stored = b.addResident(w, {signature(">0"), signature(">f")});
  b.addCompute(kUpdate, {w}, {v}, {signature("0>0", 1), signature("f>f", 1)});
  unsigned output = b.addOutput(kUpdate, v, {signature("0>"), signature("f>")});
  b.problem.ties.push_back({stored, output});
  Plan plan = this->plan({1, 3});
  ask(plan);
  plan.signatures = {0, 0, 1};
  askError(plan);
}
