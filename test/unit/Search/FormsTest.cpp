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
      int64_t bytes = forms.residentBytes + forms.aliveBytes[begin];
      int64_t workspace = 0;
      for (unsigned op = begin; op < plan.stageEnds[stage]; ++op) {
        bytes += forms.madeBytes[op];
        workspace =
            std::max(workspace,
                     problem.getSignatures(op)[plan.signatures[op]].workspace);
      }
      EXPECT_LE(bytes + workspace, report->stageBytes[stage])
          << "seed " << trial.seed << ", stage " << stage;
      if (plan.waiting.empty()) {
        EXPECT_EQ(bytes + workspace, report->stageBytes[stage])
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
