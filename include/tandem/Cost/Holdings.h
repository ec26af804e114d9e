//===- Holdings.h - items of a plan's memory --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The items of which `cost` makes the bytes of each stage (Cost.h, *Memory*).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COST_HOLDINGS_H
#define TANDEM_COST_HOLDINGS_H

#include "tandem/Cost/Cost.h"

namespace tandem::cost {

/// Bytes of one device that a plan holds for a while.
struct Holding {
  enum class Kind : uint8_t {
    /// An argument of the step in its stored layout: always there.
    Stored,
    /// What an operator made, in its producer's layout.
    Produced,
    /// A gradient, summed over time.
    Sum,
    /// A copy in another layout.
    Copy,
    /// The scratch memory of an operator.
    Workspace
  };
  Kind kind;
  /// The tensor; of a workspace the operator.
  unsigned index;
  Layout layout;
  int64_t bytes;
  /// The stages, both included.
  unsigned first, last;
};

/// All that a plan holds for some time, in no particular order; of each its
/// bytes of all strands, in the stages in which some operator runs beside it.
/// Without workspaces. Nothing, and one line in `error`, if the plan is not
/// legal; empty under the accountings `hidup-*`, where memory does not count.
std::optional<std::vector<Holding>> listHoldings(const SearchProblem &problem,
                                                 const Plan &plan,
                                                 ChangeTable &table,
                                                 std::string &error);

/// What is held while the operator of a stage runs beside which most is: the
/// bytes that count there, which add up to `CostReport::stageBytes`. Otherwise
/// as above.
std::optional<std::vector<Holding>>
listHeldAtPeak(const SearchProblem &problem, const Plan &plan, unsigned stage,
               ChangeTable &table, std::string &error);

} // namespace tandem::cost

#endif // TANDEM_COST_HOLDINGS_H
