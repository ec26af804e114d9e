//===- CostCopiesTest.cpp - copies and memory, computed by hand -----------===//
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
  EXPECT_EQ(askError(plan),
            "the copy of tensor 0 'w' as 'data=gather(1)' is kept, but the "
            "forward pass makes none, expected one of its copies: leave the "
            "line out");
  // There is no later pass for a copy of the backward pass.
  plan.kept = {{w, layout("f"), kBackward}};
  EXPECT_EQ(askError(plan), "the copy of tensor 0 'w' as 'full' is kept, "
                            "expected a later pass that uses the tensor");
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

TEST_F(CostTest, memoryOfStages) {
  unsigned x = input("x", ">0"), w = resident("w", ">0");
  unsigned y = compute(kForward, {x, w}, "0,f>0", 1, "t", 1000);
  unsigned z = compute(kForward, {y}, "f>f", 1, "t", 300);
  compute(kForward, {z}, "f>f", 1, "t", 400);
  CostReport report = ask(plan({3, 5}));
  // w whole is 128 B, half 64 B; x is an argument: 128 B of arguments. Stage 1:
  // copy of w, y and the workspace. Stage 2: y is gone once its copy was taken,
  // and that when z is read: z, the result and their operator's workspace.
  EXPECT_EQ(report.stageBytes, (std::vector<int64_t>{128 + 128 + 64 + 1000,
                                                     128 + 128 + 128 + 400}));
  EXPECT_EQ(report.peak, 128 + 1192);
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
  EXPECT_NE(askError(plan).find("returns as it was stored"), std::string::npos);
}
