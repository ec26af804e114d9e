//===- LayoutGraphTest.cpp - changes that other changes add up to ---------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Ilp/IlpLayouts.h"
#include "Ilp/IlpProgram.h"
#include "RandomProblem.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <set>

using namespace tandem;
using namespace tandem::cost;
using namespace tandem::search;
using namespace tandem::cost::test;

/// Ways over the arcs that are left cost what the changes cost.
TEST(LayoutGraph, KeepsSeconds) {
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
    for (unsigned tensor = 0; tensor < layouts.size(); ++tensor) {
      LayoutGraph graph(table, tensor, problem.getNumStrands(),
                        {layouts[tensor].begin(), layouts[tensor].end()});
      size_t size = graph.nodes.size();
      std::vector<double> nearest(size * size, kInfinity);
      for (size_t i = 0; i < size; ++i)
        nearest[i * size + i] = 0;
      for (const LayoutArc &arc : graph.arcs)
        nearest[arc.from * size + arc.to] = arc.seconds;
      for (size_t by = 0; by < size; ++by)
        for (size_t a = 0; a < size; ++a)
          for (size_t b = 0; b < size; ++b)
            nearest[a * size + b] =
                std::min(nearest[a * size + b],
                         nearest[a * size + by] + nearest[by * size + b]);
      for (const Layout &from : layouts[tensor])
        for (const Layout &to : layouts[tensor]) {
          const ChangeCost &change = table.getCost(tensor, from, to);
          double expected = change.getTotal(problem.getNumStrands());
          double way = nearest[graph.getNode(from) * size + graph.getNode(to)];
          if (!change.isPossible)
            EXPECT_EQ(way, kInfinity);
          else
            EXPECT_NEAR(way, expected, 1e-9 * expected)
                << "seed " << seed << ", tensor " << tensor;
        }
    }
  }
}
