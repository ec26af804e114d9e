//===- Fold.h - folding of repeated layers ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Layers repeat. Variables of the factor graph whose surroundings look alike up
// to some distance form a class; a search moves a class as one, and what it
// learns for its first member is a start for the others. Nothing that is
// claimed of a plan or a bound rests on it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_RELAXATION_FOLD_H
#define TANDEM_LIB_SEARCH_TANDEM_RELAXATION_FOLD_H

#include "Tandem/Limits.h"
#include "Tandem/Relaxation/Factors.h"

namespace tandem::search {

/// Per variable the first one whose surroundings are equal within `distance`
/// tensors.
std::vector<unsigned> findRepeats(const FactorGraph &graph, unsigned distance);
/// Each variable for itself.
std::vector<unsigned> getUnfolded(const FactorGraph &graph);

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_RELAXATION_FOLD_H
