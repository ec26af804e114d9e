//===- Untimed.h - a problem without its time axis --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Plans in which nothing is split over time cost the same with and without a
// time axis (Cost.h, *Strands*). Without one costs add up, and the best of them
// can be found where the whole problem is too hard.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_PROBLEM_UNTIMED_H
#define TANDEM_LIB_SEARCH_TANDEM_PROBLEM_UNTIMED_H

#include "tandem/Cost/Plan.h"

namespace tandem::search {

struct UntimedProblem {
  cost::SearchProblem problem;
  /// Of each signature of each set, its index in the problem with time.
  std::vector<std::vector<unsigned>> origins;

  /// The decisions of `plan`, a plan of `problem`, in the problem with time.
  cost::Plan lift(const cost::Plan &plan) const;
  /// The reverse, where the plan splits nothing over time.
  std::optional<cost::Plan> lower(const cost::Plan &plan) const;
};

/// Drops the time axis and the signatures that split something over it. Nothing
/// if there is no such axis, or some operator has no other signature.
std::optional<UntimedProblem> dropTime(const cost::SearchProblem &problem);

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_PROBLEM_UNTIMED_H
