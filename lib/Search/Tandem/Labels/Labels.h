//===- Labels.h - exact search, left to right -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Walks the problem's order and keeps, of the partial plans that end behind an
// operator, those that no other one dominates.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_LABELS_LABELS_H
#define TANDEM_LIB_SEARCH_TANDEM_LABELS_LABELS_H

#include "Tandem/Labels/Completion.h"
#include "Tandem/Limits.h"
#include "tandem/Cost/Changes.h"
#include "tandem/Cost/Plan.h"
#include <functional>
#include <limits>
#include <optional>

namespace tandem::search {

struct LabelLimits {
  /// Labels at one position, and live tensors of labels in all (or as much
  /// work for what they cost at least), beyond which the search gives up.
  uint64_t maxFront = kMaxFront, maxWork = ~uint64_t(0);
  /// Drops labels in place of giving up, those that cost most at least: no
  /// operator takes more than its share of the work that is left.
  bool drops = false;
  /// Labels that cost more are dropped.
  double upperBound = std::numeric_limits<double>::infinity();
  /// Asked now and then with the share of positions that are done; false stops.
  std::function<bool(double)> proceeds = {};
};

struct LabelResult {
  /// Whether all plans below the upper bound were considered, but for those
  /// that begin as a dropped label.
  bool isComplete = false;
  /// The cheapest one, its decisions only.
  std::optional<cost::Plan> plan;
  double seconds = 0;
  /// What plans that begin as a dropped label cost at least; infinity if none
  /// was dropped.
  double dropped = std::numeric_limits<double>::infinity();
  uint64_t numLabels = 0, work = 0;
};

LabelResult searchLabels(const Facts &facts, cost::ChangeTable &table,
                         const PricedRelaxations &priced,
                         const LabelLimits &limits);

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_LABELS_LABELS_H
