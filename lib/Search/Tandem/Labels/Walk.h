//===- Walk.h - the order in which labels decide ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The order in which labels decide operators: that of the problem, but that an
// argument stands before the first operator that reads it. It exists before the
// first stage wherever it stands, and what nothing has read yet would only
// multiply labels.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_LABELS_WALK_H
#define TANDEM_LIB_SEARCH_TANDEM_LABELS_WALK_H

#include "Tandem/Problem/Facts.h"

namespace tandem::search {

class LabelWalk {
public:
  explicit LabelWalk(const Facts &facts);

  std::vector<unsigned> operators;
  /// Per operator its place among `operators`.
  std::vector<unsigned> placeOf;

  /// Whether the operator is decided before, or after, all others of its group.
  bool isFirstOfGroup(unsigned op) const { return firstOfGroup[op] == op; }
  bool isLastOfGroup(unsigned op) const { return lastOfGroup[op] == op; }

private:
  std::vector<unsigned> firstOfGroup, lastOfGroup;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_LABELS_WALK_H
