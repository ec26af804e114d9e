//===- CostGradientTest.cpp - waiting sums, computed by hand --------------===//
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
// Gradients
//===----------------------------------------------------------------------===//

using GradientTest = WithGradient<CostTest>;

TEST_F(GradientTest, areSummedInTheLastStrandsComputation) {
  build(2, false);
  CostReport report = ask(plan({3, 5}));
  // (0, 3) (0, 3 + 1) (2, 1).
  EXPECT_EQ(report.stageStrands, (std::vector<unsigned>{2, 1}));
  expectSlots(report, {0, 3, 4 + 2, 1});
  ASSERT_EQ(report.changes.size(), 1u);
  EXPECT_EQ(report.changes[0].from, layout("rf"));
  // Stage 1: w, x of both strands, and twice the gradient; stage 2: w, x, the
  // sum, the reduced gradient; the new value is written in place.
  EXPECT_EQ(report.stageBytes.back(), 128 + 64 + 128 + 128);
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
  // w 128 B and x 64 B of both strands throughout. Stage 0: the terms of both
  // strands, of which one becomes the sum. Stage 1: the sum, its copy from the
  // slot that takes it, and the operator's result, of which each strand makes
  // 32 B that nothing reads. Stage 2: the copy; the new value is written in
  // place.
  EXPECT_EQ(report.stageBytes,
            (std::vector<int64_t>{192 + 256, 192 + 128 + 128 + 32, 192 + 128}));
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
