//===- CostTest.cpp - slots, strands and queues, computed by hand ---------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every number was computed by hand from the definition in
// include/tandem/Cost/Cost.h; the arithmetic stands beside it (PlanFixture.h
// has the sizes).
//
//===----------------------------------------------------------------------===//

#include "CostFixture.h"

using namespace tandem::cost;
using namespace tandem::cost::test;

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

using TwoStageTest = TwoStages<CostTest>;

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

namespace {
struct MeshTest : CostTest {
  MeshTest() { b.addAxis("model", 2, perByte(1.0 / 64)); }
};
} // namespace

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
