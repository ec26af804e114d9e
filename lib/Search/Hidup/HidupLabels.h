//===- HidupLabels.h - partial plans and their dominance --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A label is what a partial plan costs: the time of its closed stages and the
// sums over the open one. It stands for the decisions that led to it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_HIDUPLABELS_H
#define TANDEM_LIB_SEARCH_HIDUPLABELS_H

#include "tandem/Cost/Hidup.h"
#include <utility>

namespace tandem::search::hidup {

/// In units of the model (HidupModel.h): whole numbers, so that equal sums are
/// equal in whatever order they are formed.
using Time = int64_t;

struct Label {
  /// phi + psi of the closed stages.
  Time closed = 0;
  cost::HidupStage<Time> open;
  /// What the parameters whose form is decided hold, in B.
  int64_t residentBytes = 0;
  /// Last decision, in the history.
  uint32_t history = 0;
  uint32_t numStages = 1;
  /// Whether the open stage has changed a form.
  bool hasChange = false;
};

/// What the plan costs if it ends here.
inline Time getValue(cost::Accounting accounting, const Label &label) {
  return label.closed + getHidupTime(accounting, label.open) +
         label.open.computation;
}

/// Among plans of equal cost the one that holds less is better, then the one
/// with fewer stages.
inline auto getRank(const Label &label) {
  return std::pair(label.residentBytes, label.numStages);
}

/// Whether every completion of `a` costs no more than the same completion of
/// `b`; if just as much, its rank is no higher. Both are in the same state, and
/// the value of `a` is at most that of `b`.
bool dominates(cost::Accounting accounting, const Label &a, const Label &b);

} // namespace tandem::search::hidup

#endif // TANDEM_LIB_SEARCH_HIDUPLABELS_H
