//===- CostFixture.h - costs of plans in tests ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_SEARCH_COSTFIXTURE_H
#define TANDEM_TEST_UNIT_SEARCH_COSTFIXTURE_H

#include "PlanFixture.h"

namespace tandem::cost::test {

struct CostTest : PlanFixture {
  void setSlowdowns(double compute, double collective) {
    b.problem.computeSlowdown = compute;
    b.problem.collectiveSlowdown = collective;
  }
  CostReport ask(const Plan &plan) const {
    ChangeTable table(b.problem);
    std::string error;
    std::optional<CostReport> report = cost(b.problem, plan, table, error);
    EXPECT_TRUE(report) << error;
    return report.value_or(CostReport());
  }
  std::string askError(const Plan &plan) const {
    ChangeTable table(b.problem);
    std::string error;
    EXPECT_FALSE(cost(b.problem, plan, table, error));
    EXPECT_EQ(error.find('\n'), error.npos) << error;
    return error;
  }
  static void expectSlots(const CostReport &report,
                          std::vector<double> seconds) {
    ASSERT_EQ(report.slots.size(), seconds.size());
    for (size_t i = 0; i < seconds.size(); ++i)
      EXPECT_NEAR(report.slots[i].seconds, seconds[i], kTolerance) << i;
  }
};

} // namespace tandem::cost::test

#endif // TANDEM_TEST_UNIT_SEARCH_COSTFIXTURE_H
