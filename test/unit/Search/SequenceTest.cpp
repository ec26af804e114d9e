//===- SequenceTest.cpp - changes as sequences ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomProblem.h"
#include "tandem/Cost/Changes.h"
#include <gtest/gtest.h>
#include <set>

using namespace tandem;
using namespace tandem::cost;
using namespace tandem::cost::test;

/// Each step of a sequence is the cheapest change between its ends, so that
/// changes on one axis are all that `ilp` needs.
TEST(Sequence, StepsAddUp) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SearchProblem problem = makeRandomProblem(seed, {.maxPlans = 3'000});
    ChangeTable table(problem);
    std::vector<std::set<Layout>> layouts(problem.tensors.size());
    for (unsigned op = 0; op < problem.operators.size(); ++op)
      for (const Signature &signature : problem.getSignatures(op)) {
        const Operator &info = problem.operators[op];
        for (size_t i = 0; i < info.operands.size(); ++i)
          layouts[info.operands[i]].insert(signature.operands[i]);
        for (size_t i = 0; i < info.results.size(); ++i)
          layouts[info.results[i]].insert(signature.results[i]);
      }
    for (unsigned tensor = 0; tensor < layouts.size(); ++tensor)
      for (const Layout &from : layouts[tensor])
        for (const Layout &to : layouts[tensor]) {
          Layout place = from;
          double sum = 0;
          for (const AxisChange &step : table.getSequence(tensor, from, to)) {
            Layout next = place;
            next[step.axis] = step.to;
            sum += table.getCost(tensor, place, next)
                       .getTotal(problem.getNumStrands());
            place = next;
          }
          const ChangeCost &change = table.getCost(tensor, from, to);
          if (!change.isPossible)
            continue;
          double expected = change.getTotal(problem.getNumStrands());
          EXPECT_EQ(place, to);
          EXPECT_NEAR(sum, expected, 1e-9 * expected)
              << "seed " << seed << ", tensor " << tensor;
        }
  }
}
