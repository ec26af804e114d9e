//===- TandemRegions.h - parts of a step in strands -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whether a part of the order runs in strands is decided for many operators at
// once: one alone would have to split and to join what lies next to it. A
// region is a run of operators of one pass; its forms along space axes stay as
// they are (docs/rationale/search.md, *Regions*).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEMREGIONS_H
#define TANDEM_LIB_SEARCH_TANDEMREGIONS_H

#include "TandemFacts.h"

namespace tandem::search {

/// Operators from `begin` to before `end`.
struct OperatorRange {
  unsigned begin, end;
};

class StrandRegions {
public:
  explicit StrandRegions(const Facts &facts);

  /// Runs of several lengths, the longest first, that hold operators which may
  /// be split over time; none without a time axis.
  std::vector<OperatorRange> list() const;

  /// The signatures with those of the range split over time, or not, where
  /// there are such signatures of equal forms along the other axes.
  std::vector<unsigned> change(std::vector<unsigned> signatures,
                               OperatorRange range, bool isSplit) const;

private:
  /// Per signature those of equal forms along space that are split over time,
  /// and those that are not.
  struct Partners {
    std::vector<unsigned> split, whole;
  };
  bool isFree(unsigned op) const;
  unsigned choose(const std::vector<unsigned> &signatures, unsigned op,
                  const std::vector<unsigned> &candidates) const;
  int getFit(const std::vector<unsigned> &signatures, unsigned op,
             const cost::Signature &signature) const;

  const Facts &facts;
  /// Per set and signature.
  std::vector<std::vector<Partners>> partners;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEMREGIONS_H
