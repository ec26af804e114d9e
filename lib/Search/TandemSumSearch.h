//===- TandemSumSearch.h - the least of problems that add up ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The least T = max over t of T_t (TandemSum.h). For a mean of the T_t the
// least choice is found exactly (TandemTree.h) or bounded (TandemDual.h); the
// best mean is that of a game between the T_t and the choices so far. Between
// its value and the best choice lies a search that branches on variables about
// which the choices disagree, and drops values that cost too much under the
// mean (docs/rationale/search.md, *Where costs add up*).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEMSUMSEARCH_H
#define TANDEM_LIB_SEARCH_TANDEMSUMSEARCH_H

#include "TandemSum.h"
#include <functional>
#include <limits>

namespace tandem::search {

struct SumLimits {
  /// Entries of all tables together.
  uint64_t maxEntries = uint64_t(1) << 24;
  /// Nodes, and entries that are looked at (about 10^9 in a second).
  uint64_t maxNodes = 100000, maxWork = ~uint64_t(0);
  /// What is proven to be this share below the best choice is good enough.
  double gap = 1e-9;
  /// Asked now and then, with the best bound; false stops.
  std::function<bool(double)> proceeds;
  /// Told of each choice that is better than those before.
  std::function<void(const cost::Plan &)> takes;
};

struct SumResult {
  /// No plan costs less.
  double bound = 0;
  /// T of the best choice.
  double seconds = std::numeric_limits<double>::infinity();
  uint64_t numNodes = 0;
};

/// `starts` are signatures of plans.
SumResult searchSums(const Facts &facts, cost::ChangeTable &table,
                     const std::vector<std::vector<unsigned>> &starts,
                     const SumLimits &limits);

/// The mean of the columns under which the least row is largest: `rows[i][j]`
/// are positive. Weights of the columns; `rowWeights` are those of the rows
/// that hold it there.
std::vector<double> solveGame(const std::vector<std::vector<double>> &rows,
                              std::vector<double> &rowWeights);

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEMSUMSEARCH_H
