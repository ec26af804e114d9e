//===- TandemSparse.h - exact minima below a limit --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bucket elimination (TandemTree.h) where tables of all combinations would be
// too large. What a combination costs beyond a dual's bound is a sum of terms
// none of which is negative; only combinations are listed whose sum stays below
// what a better plan may cost.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEMSPARSE_H
#define TANDEM_LIB_SEARCH_TANDEMSPARSE_H

#include "TandemDual.h"

namespace tandem::search {

struct SparseResult {
  /// False if more than `maxSteps` combinations were looked at; then nothing
  /// else is said.
  bool isComplete = false;
  /// The least cost and a choice that has it; infinity if it is not below the
  /// limit.
  double least = 0;
  std::vector<unsigned> choice;
  /// Per variable and value the least cost of a choice with it, likewise.
  std::vector<std::vector<double>> leastOf;
  uint64_t numSteps = 0;
};

SparseResult minimizeBelow(const SumModel &model, const SumDual &dual,
                           double limit, uint64_t maxSteps);

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEMSPARSE_H
