//===- EditorTest.cpp - small changes are costed as `cost` does -----------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomPlan.h"
#include "Tandem/Improve/Improve.h"
#include "Tandem/Relaxation/Fold.h"
#include "Trial.h"
#include <gtest/gtest.h>

using namespace tandem::cost;
using namespace tandem::cost::test;
using namespace tandem::search;

/// With a limit that about half of all plans exceed, or none.
static SearchProblem makeProblem(uint64_t seed, Random &random) {
  RandomOptions options;
  options.isRich = seed % 2;
  options.kind = static_cast<RandomOptions::Kind>(seed / 2 % 4);
  SearchProblem problem = makeRandomProblem(seed, options);
  if (seed % 5 < 2)
    addPlaces(problem, random);
  ChangeTable table(problem);
  std::string error;
  if (seed % 3 == 0)
    return problem;
  if (auto plan = makeRandomPlan(problem, table, random))
    problem.memoryLimit = cost(problem, *plan, table, error)->peak;
  return problem;
}

static Score getTrueScore(const SearchProblem &problem, const Plan &plan,
                          ChangeTable &table) {
  std::string error;
  std::optional<CostReport> report = cost(problem, plan, table, error);
  EXPECT_TRUE(report) << error;
  if (!report)
    return {};
  Score score{report->seconds, 0};
  if (problem.memoryLimit == std::numeric_limits<int64_t>::max())
    return score;
  score.peak = report->peak;
  for (int64_t bytes : report->stageBytes)
    score.excess += std::max<int64_t>(0, bytes - problem.memoryLimit);
  return score;
}

static bool edit(PlanEditor &editor, const Facts &facts, Random &random) {
  const SearchProblem &problem = facts.problem;
  unsigned op = random.below(problem.operators.size());
  std::vector<Copy> keepable = editor.listKeepable(),
                    waitable = editor.listWaitable();
  switch (random.below(4)) {
  case 0: {
    std::vector<unsigned> ops;
    for (unsigned i = 0; i < problem.operators.size(); ++i)
      if (facts.groupOf[i] == facts.groupOf[op])
        ops.push_back(i);
    return editor.setSignatures(ops,
                                random.below(problem.getSignatures(op).size()));
  }
  case 1:
    return editor.setCut(op, !editor.hasCut(op));
  case 2:
    return keepable.empty() || editor.toggleKept(random.pick(keepable));
  default:
    return waitable.empty() || editor.toggleWaiting(random.pick(waitable));
  }
}

TEST(EditorTest, AgreesWithCostAndUndoes) {
  unsigned numCompared = 0, numLarge = 0, numWaiting = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    SearchProblem problem = makeProblem(seed, random);
    Facts facts(problem);
    ChangeTable table(problem);
    std::optional<Plan> plan = makeRandomPlan(problem, table, random);
    if (!plan)
      continue;
    PlanEditor editor(facts, table), whole(facts, table);
    editor.set(*plan);
    auto expectEqual = [&](const char *when) {
      Plan now = editor.getPlan();
      Score score = editor.getScore(),
            expected = getTrueScore(problem, now, table);
      ++numCompared;
      numLarge += score.excess > 0;
      numWaiting += !now.waiting.empty();
      EXPECT_NEAR(score.seconds, expected.seconds, 1e-11 * expected.seconds)
          << when << ", seed " << seed;
      EXPECT_EQ(score.excess, expected.excess) << when << ", seed " << seed;
      EXPECT_EQ(score.peak, expected.peak) << when << ", seed " << seed;
      if (problem.memoryLimit == std::numeric_limits<int64_t>::max())
        return;
      // A new editor walks over all stages.
      whole.set(now);
      int64_t limit = expected.peak - expected.peak / 4;
      EXPECT_EQ(editor.getScoreByOperator(limit).excess,
                whole.getScoreByOperator(limit).excess)
          << when << ", seed " << seed;
    };
    EXPECT_EQ(editor.getPlan().stageEnds, plan->stageEnds);
    EXPECT_EQ(editor.getPlan().kept, plan->kept) << "seed " << seed;
    EXPECT_EQ(editor.getPlan().waiting, plan->waiting) << "seed " << seed;
    expectEqual("at first");
    for (unsigned i = 0; i < 20; ++i) {
      Plan before = editor.getPlan();
      PlanEditor::Mark mark = editor.mark();
      if (edit(editor, facts, random) && edit(editor, facts, random)) {
        expectEqual("changed");
        if (random.chance(0.5)) {
          editor.keep();
          expectEqual("kept");
          continue;
        }
      }
      editor.undo(mark);
      Plan after = editor.getPlan();
      EXPECT_EQ(after.signatures, before.signatures);
      EXPECT_EQ(after.stageEnds, before.stageEnds);
      EXPECT_EQ(after.kept, before.kept);
      EXPECT_EQ(after.waiting, before.waiting);
      expectEqual("undone");
    }
  }
  EXPECT_GT(numCompared, 5000u);
  EXPECT_GT(numLarge, 500u);
  EXPECT_GT(numWaiting, 500u);
}

/// Descents end in plans that `cost` accepts and that are no worse; from random
/// plans most are much better.
TEST(EditorTest, DescentsImprove) {
  unsigned numTried = 0, numBetter = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    SearchProblem problem = makeProblem(seed, random);
    Facts facts(problem);
    ChangeTable table(problem);
    FactorGraph graph(facts, table);
    std::optional<Plan> plan = makeRandomPlan(problem, table, random);
    if (!plan)
      continue;
    PlanImprover improver(graph, table, getUnfolded(graph));
    Score before = getTrueScore(problem, *plan, table);
    uint64_t work = 100'000;
    Plan improved = improver.improve(*plan, PlanImprover::Reach::Neighbours,
                                     work, [] { return true; });
    Score after = getTrueScore(problem, improved, table);
    EXPECT_FALSE(before.isBetterThan(after)) << "seed " << seed;
    ++numTried;
    numBetter += after.isBetterThan(before);
  }
  EXPECT_GT(numTried, 80u);
  EXPECT_GT(numBetter, numTried * 3 / 4);
}
