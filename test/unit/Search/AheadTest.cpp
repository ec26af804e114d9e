//===- AheadTest.cpp - recomputation beside collectives -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tensor has 128 B, half of it per device where it is split (PlanFixture.h).
//
//===----------------------------------------------------------------------===//

#include "tandem/Cost/Ahead.h"
#include "CostFixture.h"
#include "tandem/Cost/InTurn.h"

using namespace tandem::cost;
using namespace tandem::cost::test;

namespace {
struct AheadTest : CostTest {
  /// A collective in the stage of the second operator; the third one makes x
  /// again, and the last one reads it, maybe behind a collective.
  void build(const char *last) {
    unsigned x = input("x", ">0");
    unsigned y = compute(kForward, {x}, "0>0", 1);
    compute(kForward, {y}, "f>f", 1);
    unsigned again = compute(kForward, {x}, "0>0", 1, "t", 100);
    compute(kForward, {again}, last, 1);
    makesAgain.resize(b.problem.operators.size());
    makesAgain[3] = true;
  }
  /// With a limit of `room` bytes above the peak.
  Ahead find(const Plan &plan, int64_t room) {
    b.problem.memoryLimit = ask(plan).peak + room;
    ChangeTable table(b.problem);
    return findAhead(b.problem, plan, table, makesAgain, b.problem.memoryLimit);
  }

  std::vector<bool> makesAgain;
};

using Stages = std::vector<unsigned>;
using Bytes = std::vector<int64_t>;
} // namespace

TEST_F(AheadTest, goesToTheLastCollectives) {
  build("0>0");
  // 64 B of the result, and the workspace, in both stages.
  Ahead ahead = find(plan({2, 3, 4, 5}), 1000);
  EXPECT_EQ(ahead.stages, Stages({2}));
  EXPECT_EQ(ahead.bytes, Bytes({0, 164, 164, 0}));
  // In the stage itself, which also sends nothing before the first one.
  EXPECT_EQ(find(plan({2, 4, 5}), 1000).stages, Stages({1}));
  EXPECT_EQ(find(plan({2, 4, 5}), 1000).bytes, Bytes({0, 164, 0}));
}

TEST_F(AheadTest, memoryHasRoom) {
  build("0>0");
  Plan stages = plan({2, 3, 4, 5});
  int64_t peak = 0;
  CostReport report = ask(stages);
  for (unsigned stage : {1, 2})
    peak = std::max(peak, report.stageBytes[stage]);
  int64_t least = peak + 164 - report.peak;
  EXPECT_EQ(find(stages, least).stages, Stages({2}));
  EXPECT_EQ(find(stages, least - 1).stages, Stages());
}

TEST_F(AheadTest, nothingBesideWhichToCompute) {
  build("0>0");
  makesAgain.assign(makesAgain.size(), false);
  makesAgain[1] = true;
  EXPECT_EQ(find(plan({2, 3, 4, 5}), 1000).stages, Stages());
}

TEST_F(AheadTest, collectivesBeginWithWhatIsAhead) {
  build("f>f");
  Plan stages = plan({2, 3, 4, 5});
  ChangeTable table(b.problem);
  Ahead ahead = find(stages, 164);
  ASSERT_EQ(ahead.stages, Stages({2}));
  // The copy of what is made again may be there beside the second operator.
  CostReport report = ask(stages);
  b.problem.memoryLimit = report.stageBytes[1] + 164 + 127;
  EXPECT_EQ(findInTurn(b.problem, stages, table, ahead.bytes), Stages({3}));
}
