//===- RowLayout.h - layout of batch rows in a dimension --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_ACCUMULATE_ROWLAYOUT_H
#define TANDEM_LIB_TRANSFORMS_ACCUMULATE_ROWLAYOUT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace tandem {

/// Merged dimensions (outer, row, inner).
struct RowSection {
  int64_t outer = 1, inner = 1;
  int64_t getItems() const { return outer * inner; }
  bool operator==(const RowSection &) const = default;
};

/// How a dimension has rows of a batch: as sections one behind the
/// other. `torch.cat` of two batches has
/// outer = 2, a merged (sequence, batch) has outer = sequence, and
/// `repeat_interleave` has inner = repeats.
///
/// An index of the dimension that is not that of the row is an *item*. Sorted,
/// the dimension is (row, item), with items in the order of sections, outer and
/// inner. Neighbouring sections differ in `inner`.
struct RowLayout {
  int64_t rows = 0;
  llvm::SmallVector<RowSection, 1> sections;

  explicit RowLayout(int64_t rows, RowSection section = {})
      : rows(rows), sections{section} {}
  bool operator==(const RowLayout &) const = default;

  /// Whether the dimension is (row, item) as it is.
  bool isSorted() const {
    return sections.size() == 1 && sections.front().outer == 1;
  }
  int64_t getItems() const;
  /// Appends what `other` has, of as many rows.
  void append(const RowLayout &other);
  void append(RowSection section);

  /// What is left of indices [start, stop) by `step`; `firstItem` is that of
  /// the first item that stays. None if rows lose different items.
  std::optional<RowLayout> slice(int64_t start, int64_t stop, int64_t step,
                                 int64_t &firstItem) const;
};

/// A dimension and its rows.
struct RowDim {
  int64_t dim;
  RowLayout layout;
  bool operator==(const RowDim &) const = default;
};

/// Where a reshape from shape `from` to shape `to` puts rows. None if no
/// dimension has them all, and what they leave is no layout.
std::optional<RowDim> mapThroughReshape(llvm::ArrayRef<int64_t> from,
                                        llvm::ArrayRef<int64_t> to,
                                        const RowDim &rows);

/// The product of sizes.
int64_t countElements(llvm::ArrayRef<int64_t> sizes);

} // namespace tandem

#endif // TANDEM_LIB_TRANSFORMS_ACCUMULATE_ROWLAYOUT_H
