//===- RandomPlan.h - random legal plans ------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_SEARCH_RANDOMPLAN_H
#define TANDEM_TEST_UNIT_SEARCH_RANDOMPLAN_H

#include "RandomProblem.h"
#include "tandem/Cost/Cost.h"

namespace tandem::cost::test {

/// Decisions that are legal (the memory limit is not looked at): signatures at
/// random, some of the cuts that may go removed, some copies kept, some
/// gradients waiting. Nothing if a few attempts led nowhere.
std::optional<Plan> makeRandomPlan(const SearchProblem &problem,
                                   ChangeTable &table, Random &random);

/// Every division that differs from the plan's by one cut moved by one
/// operator, added or removed, legal or not.
std::vector<std::vector<unsigned>>
getNeighbours(const SearchProblem &problem,
              const std::vector<unsigned> &stageEnds);

} // namespace tandem::cost::test

#endif // TANDEM_TEST_UNIT_SEARCH_RANDOMPLAN_H
