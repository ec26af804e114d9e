//===- SumSearch.h - best-first search of additive problems -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The least T = max over t of T_t (Tandem/Sums/Sum.h). The best mean of the T_t
// (Tandem/Sums/SumMean.h) bounds it. Between that bound and the best choice
// lies a search that takes the node with the least bound, and decides the
// variable in whose seconds the choices that the mean mixes differ most.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_SUMS_SUMSEARCH_H
#define TANDEM_LIB_SEARCH_TANDEM_SUMS_SUMSEARCH_H

#include "Tandem/Limits.h"
#include "Tandem/Sums/Sum.h"
#include <functional>
#include <limits>
#include <memory>

namespace tandem::search {

struct SumLimits {
  /// Those of a plan, for the least cost with these stages; empty: for a bound
  /// of all plans.
  std::vector<unsigned> stageEnds;
  /// Entries of all tables together; fewer if little work is left.
  uint64_t maxEntries = kMaxTableEntries;
  /// Nodes, and entries that are looked at (about 10^9 in a second).
  uint64_t maxNodes = kMaxSumNodes, maxWork = ~uint64_t(0);
  /// What is proven to be this share below the best choice is good enough.
  double gap = kProven;
  /// Choices that cost as much or more are of no interest.
  double upperBound = std::numeric_limits<double>::infinity();
  /// Asked now and then, with the best bound; false stops.
  std::function<bool(double)> proceeds;
  /// Told of each choice that is better than those before; returns what others
  /// have to cost less than.
  std::function<double(const cost::Plan &)> takes;
};

struct SumResult {
  /// No plan costs less (with the stages, if they are given).
  double bound = 0;
  /// T of the best choice; or less, if `takes` said so.
  double seconds = std::numeric_limits<double>::infinity();
  uint64_t numNodes = 0, work = 0;
  /// Whether nothing is left that could cost less.
  bool isComplete = false;
  /// Whether tables would have been too large for the work, so that nothing was
  /// searched.
  bool isTooLarge = false;
};

/// `start` are signatures to begin with, one per operator; none if empty.
SumResult searchSums(const Facts &facts, cost::ChangeTable &table,
                     const std::vector<unsigned> &start,
                     const SumLimits &limits);

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_SUMS_SUMSEARCH_H
