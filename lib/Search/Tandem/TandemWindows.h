//===- TandemWindows.h - operators that are decided together ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A window is an operator with those that share tensors with it, as far away as
// their signatures have no more than so many combinations. With all others as
// they are, the labels (TandemLabels.h) find the cheapest signatures in a
// window together with all cuts, kept and waiting copies: changes of several of
// these at once, each of which alone is dearer or not legal (large
// neighbourhood search, Shaw 1998).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEMWINDOWS_H
#define TANDEM_LIB_SEARCH_TANDEMWINDOWS_H

#include "TandemFacts.h"

namespace tandem::search {

class OperatorWindows {
public:
  /// No window twice.
  OperatorWindows(const Facts &facts, double maxCombinations);

  size_t size() const { return windows.size(); }
  /// Per operator the signatures to choose from: all in the window, elsewhere
  /// the one that is given.
  std::vector<std::vector<unsigned>>
  getSignatures(size_t window, const std::vector<unsigned> &others) const;

private:
  std::vector<bool> make(unsigned group, double maxCombinations) const;
  void addNeighbours(unsigned group, std::vector<unsigned> &found) const;

  const Facts &facts;
  /// Operators of each group of tied ones, by its first.
  std::vector<std::vector<unsigned>> members;
  /// Per window whether an operator lies in it.
  std::vector<std::vector<bool>> windows;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEMWINDOWS_H
