//===- TimeLine.h - steps, slots and the waiting queue ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The time of a plan, given its copies. Rules: Cost.h, *Strands*, *Slots* and
// *Waiting*; HiDup, equation 5, is the case of two strands without waiting.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_COST_TIMELINE_H
#define TANDEM_LIB_COST_TIMELINE_H

#include "Copies.h"

namespace tandem::cost {

/// When the queue took a waiting copy's first and last piece, as stages.
struct WaitSpan {
  unsigned first, last;
};

/// Fills in steps, slots, strands, seconds and the exposed wait of `report`.
/// Returns a span per copy of `placement`; those that do not wait have none.
std::vector<std::optional<WaitSpan>> layOut(const SearchProblem &problem,
                                            const Plan &plan,
                                            const Placement &placement,
                                            CostReport &report);

} // namespace tandem::cost

#endif // TANDEM_LIB_COST_TIMELINE_H
