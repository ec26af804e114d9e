//===- ExplainFixture.h - explanations of plans written in tests -*- C++
//-*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_EXPLAIN_EXPLAINFIXTURE_H
#define TANDEM_TEST_UNIT_EXPLAIN_EXPLAINFIXTURE_H

#include "PlanFixture.h"
#include "tandem/Explain/Explain.h"

namespace tandem::explain::test {

struct ExplainTest : cost::test::PlanFixture {
  Explanation ask(const cost::Plan &plan,
                  const ExplainOptions &options = {}) const {
    std::string error;
    std::optional<Explanation> result =
        explain(b.problem, plan, options, error);
    EXPECT_TRUE(result) << error;
    return result.value_or(Explanation());
  }
  static void expectExposed(const Explanation &explanation, Cause cause,
                            double seconds, unsigned numSlots) {
    for (const Exposure &entry : explanation.exposures)
      if (entry.cause == cause) {
        EXPECT_NEAR(entry.seconds, seconds, cost::test::kTolerance);
        EXPECT_EQ(entry.numSlots, numSlots);
        return;
      }
    ADD_FAILURE() << "nothing is exposed because: " << describe(cause);
  }
};

/// y is made whole in 2 s or split in 1 s, and wanted whole.
struct ChoiceTest : ExplainTest {
  ChoiceTest() {
    unsigned x = input("x", ">f"), y = tensor("layers.0.y");
    b.addCompute(
        cost::test::kForward, {x}, {y},
        {cost::test::signature("f>f", 2), cost::test::signature("f>0", 1)});
    compute(cost::test::kForward, {y}, "f>f", 1);
  }
};

} // namespace tandem::explain::test

#endif // TANDEM_TEST_UNIT_EXPLAIN_EXPLAINFIXTURE_H
