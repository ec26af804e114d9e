//===- RowLayout.cpp - layout of batch rows in a dimension ----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowLayout.h"
#include "llvm/ADT/STLExtras.h"
#include <functional>
#include <numeric>

using namespace llvm;

namespace tandem {

int64_t countElements(ArrayRef<int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1),
                         std::multiplies<int64_t>());
}

int64_t RowLayout::getItems() const {
  int64_t items = 0;
  for (const RowSection &section : sections)
    items += section.getItems();
  return items;
}

void RowLayout::append(RowSection section) {
  if (!sections.empty() && sections.back().inner == section.inner)
    sections.back().outer += section.outer;
  else
    sections.push_back(section);
}

void RowLayout::append(const RowLayout &other) {
  for (const RowSection &section : other.sections)
    append(section);
}

std::optional<RowLayout> RowLayout::slice(int64_t start, int64_t stop,
                                          int64_t step,
                                          int64_t &firstItem) const {
  firstItem = start;
  if (isSorted() && step == getItems() && start < step &&
      stop > start + (rows - 1) * step)
    return RowLayout(rows);
  RowLayout left(rows);
  left.sections.clear();
  if (step != 1)
    return std::nullopt;
  int64_t begin = 0, items = 0;
  for (const RowSection &section : sections)
    for (int64_t block = 0; block < section.outer; ++block) {
      int64_t end = begin + rows * section.inner;
      bool isIn = begin >= start && end <= stop;
      if (!isIn && end > start && begin < stop)
        return std::nullopt;
      if (isIn && left.sections.empty())
        firstItem = items;
      if (isIn)
        left.append({1, section.inner});
      begin = end;
      items += section.inner;
    }
  if (left.sections.empty())
    return std::nullopt;
  return left;
}

/// Of one section: by the stride of its rows.
static std::optional<RowDim>
mapSection(ArrayRef<int64_t> from, ArrayRef<int64_t> to, const RowDim &rows) {
  const RowSection &section = rows.layout.sections.front();
  int64_t stride = section.inner * countElements(from.drop_front(rows.dim + 1));
  int64_t extent = stride * rows.layout.rows;
  for (int64_t dim = 0, rank = to.size(); dim < rank; ++dim) {
    int64_t inner = countElements(to.drop_front(dim + 1));
    int64_t all = inner * to[dim];
    if (stride % inner == 0 && all % extent == 0)
      return RowDim{
          dim, RowLayout(rows.layout.rows, {all / extent, stride / inner})};
  }
  return std::nullopt;
}

/// Of several: where the dimensions in front of them stay, and all sections get
/// the same dimensions behind them, or lose them.
static std::optional<RowDim>
mapSections(ArrayRef<int64_t> from, ArrayRef<int64_t> to, const RowDim &rows) {
  int64_t front = countElements(from.take_front(rows.dim));
  int64_t own = from[rows.dim];
  for (int64_t dim = 0, rank = to.size(); dim < rank; ++dim) {
    if (countElements(to.take_front(dim)) != front || to[dim] == 1)
      continue;
    RowDim mapped{dim, RowLayout(rows.layout.rows)};
    mapped.layout.sections.clear();
    for (RowSection section : rows.layout.sections) {
      int64_t inner = section.inner * to[dim];
      if (inner % own != 0)
        return std::nullopt;
      mapped.layout.append({section.outer, inner / own});
    }
    return mapped;
  }
  return std::nullopt;
}

std::optional<RowDim> mapThroughReshape(ArrayRef<int64_t> from,
                                        ArrayRef<int64_t> to,
                                        const RowDim &rows) {
  if (countElements(from) == 0)
    return std::nullopt;
  return rows.layout.sections.size() == 1 ? mapSection(from, to, rows)
                                          : mapSections(from, to, rows);
}

} // namespace tandem
