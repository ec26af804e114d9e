//===- FormsTest.cpp - forms needed by given signatures -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Problem/Forms.h"
#include "Trial.h"
#include "tandem/Cost/Cost.h"
#include "gtest/gtest.h"

using namespace tandem;
using namespace tandem::cost;
using namespace tandem::cost::test;
using namespace tandem::search;

static bool isOverTime(const SearchProblem &problem, const Plan &plan,
                       unsigned op) {
  return !problem.operators[op].isArgument() &&
         problem.isOverTime(problem.getSignatures(op)[plan.signatures[op]]);
}

/// At the peak of the stage with the operators from `begin` to before `end`.
static int64_t getBytes(const FixedForms &forms, const Plan &plan,
                        unsigned begin, unsigned end) {
  const HeldBytes &held = forms.held;
  const SearchProblem &problem = forms.getProblem();
  int64_t later = 0, onceLater = 0, made = 0, terms = 0, top = 0, topOfAll = 0;
  bool isWhole = false;
  for (unsigned op = begin; op < end; ++op) {
    later += held.copies[op];
    onceLater += held.onceCopies[op];
    made += held.onceMade[op] + held.onceCopies[op];
    isWhole |= isOverTime(problem, plan, op);
  }
  int64_t atBegin = held.between[begin] + later;
  for (unsigned op = begin; op < end; ++op) {
    later -= held.copies[op];
    terms += held.terms[op];
    int64_t workspace =
        problem.getSignatures(op)[plan.signatures[op]].workspace;
    int64_t share = held.alive[op] + later + terms + workspace;
    top = std::max(top, share);
    topOfAll = std::max(topOfAll, share + held.onceAlive[op] + onceLater +
                                      held.onceMade[op]);
    onceLater -= held.onceCopies[op];
  }
  int64_t beside = std::max(atBegin, held.between[end] + terms);
  return held.arguments + (problem.getNumStrands() - 1) * beside +
         (isWhole ? top + held.onceAlive[begin] + made : topOfAll);
}

/// What the dynamic program of stages takes plans to hold: with what waits no
/// more than they do, and else just that.
TEST(FormsTest, holdWhatPlansHold) {
  unsigned numKept = 0, numWaiting = 0;
  for (const Trial &trial : getTrials()) {
    if (!trial.oracle || !trial.oracle->plan)
      continue;
    const SearchProblem &problem = trial.problem;
    const Plan &plan = *trial.oracle->plan;
    Facts facts(problem);
    ChangeTable table(problem);
    FixedForms forms(facts, table);
    ASSERT_TRUE(forms.analyse(plan, /*holdsLeast=*/true));
    std::string error;
    std::optional<CostReport> report = cost::cost(problem, plan, table, error);
    ASSERT_TRUE(report) << error;
    unsigned begin = 0;
    for (unsigned stage = 0; stage < plan.stageEnds.size(); ++stage) {
      int64_t bytes = getBytes(forms, plan, begin, plan.stageEnds[stage]);
      EXPECT_LE(bytes, report->stageBytes[stage])
          << "seed " << trial.seed << ", stage " << stage;
      if (plan.waiting.empty()) {
        EXPECT_EQ(bytes, report->stageBytes[stage])
            << "seed " << trial.seed << ", stage " << stage;
      }
      begin = plan.stageEnds[stage];
    }
    numKept += !plan.kept.empty();
    numWaiting += !plan.waiting.empty();
  }
  EXPECT_GT(numKept, 10u);
  EXPECT_GT(numWaiting, 5u);
}
