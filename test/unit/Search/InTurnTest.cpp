//===- InTurnTest.cpp - collectives that may not start early --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tensor has 128 B, half of it per device where it is split (PlanFixture.h).
//
//===----------------------------------------------------------------------===//

#include "tandem/Cost/InTurn.h"
#include "CostFixture.h"

using namespace tandem::cost;
using namespace tandem::cost::test;

namespace {
struct InTurnTest : CostTest {
  /// With a limit of `room` bytes above the peak.
  std::vector<unsigned> find(const Plan &plan, int64_t room) {
    b.problem.memoryLimit = ask(plan).peak + room;
    ChangeTable table(b.problem);
    return findInTurn(b.problem, plan, table);
  }
};

using Stages = std::vector<unsigned>;
} // namespace

TEST_F(InTurnTest, gathersBesideTheStageBefore) {
  unsigned x = input("x", ">0"), w = resident("w", ">0");
  compute(kForward, {x}, "0>0", 1, "t", 1000);
  compute(kForward, {w}, "f>f", 1);
  // The copy of w has 128 B.
  EXPECT_EQ(find(plan({3, 4}), 127), Stages({1}));
  EXPECT_EQ(find(plan({3, 4}), 128), Stages());
  // In one stage there is nothing to begin beside.
  EXPECT_EQ(find(plan({4}), 0), Stages());
}

TEST_F(InTurnTest, nothingWithoutALimit) {
  unsigned x = input("x", ">0"), w = resident("w", ">0");
  compute(kForward, {x}, "0>0", 1, "t", 1000);
  compute(kForward, {w}, "f>f", 1);
  ChangeTable table(b.problem);
  EXPECT_EQ(findInTurn(b.problem, plan({3, 4}), table), Stages());
}

TEST_F(InTurnTest, anArgumentIsGatheredOneStageEarly) {
  unsigned x = input("x", ">0"), w = resident("w", ">0");
  compute(kForward, {x}, "0>0", 1, "t", 1000);
  compute(kForward, {x}, "0>0", 1);
  compute(kForward, {w}, "f>f", 1);
  EXPECT_EQ(find(plan({3, 4, 5}), 0), Stages());
}

TEST_F(InTurnTest, whatIsComputedIsGatheredFromThereOn) {
  unsigned x = input("x", ">0");
  unsigned y = compute(kForward, {x}, "0>0", 1);
  unsigned z = compute(kForward, {x}, "0>0", 1);
  compute(kForward, {x}, "0>0", 1, "t", 1000);
  compute(kForward, {y}, "f>f", 1);
  compute(kForward, {z}, "f>f", 1);
  Plan stages = plan({3, 4, 5, 6});
  // Beside the third operator lie the copies of y and of z.
  EXPECT_EQ(find(stages, 256), Stages());
  EXPECT_EQ(find(stages, 255), Stages({3}));
  // If that of y has to wait, so does all behind it.
  EXPECT_EQ(find(stages, 127), Stages({2}));
}

TEST_F(InTurnTest, strandsOverlap) {
  addTime();
  unsigned x = input("x", ">00");
  unsigned y = compute(kForward, {x}, "00>00", 1, "t", 1000);
  compute(kForward, {y}, "f0>f0", 1);
  EXPECT_EQ(find(plan({2, 3}), 0), Stages());
}

TEST_F(InTurnTest, oneStrandFollowsStrands) {
  addTime();
  unsigned x = input("x", ">00"), w = resident("w", ">0f");
  compute(kForward, {x}, "00>00", 1, "t", 1000);
  compute(kForward, {w}, "ff>ff", 1);
  EXPECT_EQ(find(plan({3, 4}), 0), Stages({1}));
}
