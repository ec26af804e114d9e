//===- UntimedTest.cpp - plans with and without a time axis ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Problem/Untimed.h"
#include "RandomProblem.h"
#include "Tandem/Problem/Facts.h"
#include "gtest/gtest.h"

using namespace tandem;
using namespace tandem::cost;
using namespace tandem::cost::test;
using namespace tandem::search;

constexpr RandomOptions kOptions{.maxPlans = 100'000};

TEST(UntimedTest, plansInOneStrandAreLoweredAndLifted) {
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
