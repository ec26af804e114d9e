//===- Ahead.h - recomputation beside collectives of its stage --*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A stage of one strand computes behind its collectives (Cost.h, *Slots*). What
// it, or a stage behind it, makes again of saved values needs none of them: a
// schedule may compute it beside them, before the rest of the stage. The cost
// does not count the time that this saves. What is held sooner stays below a
// limit, which may be the peak of the plan.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COST_AHEAD_H
#define TANDEM_COST_AHEAD_H

#include "tandem/Cost/Cost.h"

namespace tandem::cost {

struct Ahead {
  /// Ascending: what they make again may be computed beside the last
  /// collectives up to the stage, if it reads nothing that is made later.
  std::vector<unsigned> stages;
  /// Per stage, what it holds then beyond `CostReport::stageBytes`, at most.
  std::vector<int64_t> bytes;
};

/// Those with which no stage holds more than `limit` bytes, from the first one
/// on; only stages of one strand, with no other between them and the
/// collectives. `makesAgain` is per operator. Nothing for a plan that is not
/// legal.
Ahead findAhead(const SearchProblem &problem, const Plan &plan,
                ChangeTable &table, const std::vector<bool> &makesAgain,
                int64_t limit);

} // namespace tandem::cost

#endif // TANDEM_COST_AHEAD_H
