//===- RegionsTest.cpp - changes of whole regions over time ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomProblem.h"
#include "Tandem/TandemRegions.h"
#include "Tandem/TandemUntimed.h"
#include "gtest/gtest.h"

using namespace tandem;
using namespace tandem::cost;
using namespace tandem::cost::test;
using namespace tandem::search;

constexpr RandomOptions kOptions{.maxPlans = 100'000};

static std::vector<Layout> getSpace(const Facts &facts, unsigned op,
                                    unsigned value) {
  const Signature &signature = facts.problem.getSignatures(op)[value];
  std::vector<Layout> layouts;
  for (const Layout &layout : signature.operands)
    layouts.push_back(facts.getSummed(layout));
  for (const Layout &layout : signature.results)
    layouts.push_back(facts.getSummed(layout));
  return layouts;
}

TEST(RegionsTest, onlyFormsOverTimeOfTheRegionChange) {
  unsigned numSplit = 0, numJoined = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SearchProblem problem = makeRandomProblem(seed, kOptions);
    Facts facts(problem);
    StrandRegions regions(facts);
    ASSERT_TRUE(facts.timeAxis >= 0 || regions.list().empty());
    std::vector<unsigned> first;
    for (unsigned op = 0; op < problem.operators.size(); ++op)
      first.push_back((seed + op) % problem.getSignatures(op).size());
    for (OperatorRange range : regions.list()) {
      ASSERT_LT(range.begin, range.end);
      ASSERT_LE(range.end, problem.operators.size());
      std::vector<unsigned> split = regions.change(first, range, true);
      std::vector<unsigned> joined = regions.change(split, range, false);
      for (unsigned op = 0; op < split.size(); ++op) {
        bool isInside = op >= range.begin && op < range.end;
        for (const auto &changed : {split, joined}) {
          EXPECT_TRUE(isInside || changed[op] == first[op]);
          EXPECT_EQ(getSpace(facts, op, changed[op]),
                    getSpace(facts, op, first[op]));
        }
        auto isSplit = [&](const std::vector<unsigned> &values) {
          return facts.isPerStrand(problem.getSignatures(op)[values[op]]);
        };
        numSplit += isSplit(split) && !isSplit(first);
        numJoined += isSplit(split) && !isSplit(joined);
      }
    }
  }
  EXPECT_GT(numSplit, 50u);
  EXPECT_GT(numJoined, 50u);
}

TEST(RegionsTest, plansInOneStrandAreLoweredAndLifted) {
  unsigned numLowered = 0, numTimed = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SearchProblem problem = makeRandomProblem(seed, kOptions);
    std::optional<UntimedProblem> untimed = dropTime(problem);
    if (!untimed)
      continue;
    Facts facts(problem);
    Plan plan;
    plan.stageEnds = {static_cast<unsigned>(problem.operators.size())};
    bool isTimed = false;
    for (unsigned op = 0; op < problem.operators.size(); ++op) {
      unsigned value = (seed + op) % problem.getSignatures(op).size();
      plan.signatures.push_back(seed % 2 ? value : 0);
      isTimed |=
          facts.isPerStrand(problem.getSignatures(op)[plan.signatures[op]]);
    }
    std::optional<Plan> lowered = untimed->lower(plan);
    ASSERT_EQ(lowered.has_value(), !isTimed) << "seed " << seed;
    numTimed += isTimed;
    if (!lowered)
      continue;
    ++numLowered;
    EXPECT_EQ(untimed->lift(*lowered).signatures, plan.signatures);
  }
  EXPECT_GT(numLowered, 10u);
  EXPECT_GT(numTimed, 10u);
}
