//===- whole_values.cpp - scatter and gather of whole values --------------===//
//----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/whole_values.h"
#include "core/reduce.h"

#include <algorithm>

namespace tandem::rt {

std::optional<size_t> Place::find(int64_t rank) const {
  auto it = std::lower_bound(job.ranks.begin(), job.ranks.end(), rank);
  if (it == job.ranks.end() || *it != rank)
    return std::nullopt;
  return size_t(it - job.ranks.begin());
}

namespace {
uint8_t *at(const void *whole, int64_t offset) {
  return const_cast<uint8_t *>(static_cast<const uint8_t *>(whole)) + offset;
}

/// Is the value of `root`, if there is one, that of this process?
bool isHere(const Place &place, std::optional<int64_t> root) {
  return !root || place.find(*root);
}
} // namespace

Status scatter(const Place &place, const SliceLayout &layout,
               const RankBuffers &buffers, const void *whole,
               std::optional<int64_t> root) {
  size_t bytes = size_t(sliceBytes(layout));
  bool here = isHere(place, root);
  Bytes staged;
  for (int64_t rank = 0; rank < place.job.worldSize; ++rank) {
    std::optional<size_t> own = place.find(rank);
    if ((!own && !root) || !holds(layout.program, layout.form, rank))
      continue;
    void *data = nullptr;
    std::optional<int64_t> offset = contiguousOffset(layout, rank);
    if (here && offset) {
      data = at(whole, *offset);
    } else if (here || own) {
      staged.resize(bytes);
      data = staged.data();
      if (here)
        scatterTo(layout, rank, whole, data);
    }
    Status status;
    if (root)
      status = place.fabric->move(*root, rank, data, bytes);
    if (status.ok() && own)
      status = buffers[*own]->copyIn(0, data, bytes);
    if (!status.ok())
      return status;
  }
  return Status::success();
}

namespace {
/// Brings the slice of `rank` to `data`, where it is wanted.
Status fetch(const Place &place, const RankBuffers &buffers, int64_t rank,
             std::optional<int64_t> root, void *data, size_t bytes) {
  if (std::optional<size_t> own = place.find(rank))
    if (Status status = buffers[*own]->copyOut(0, data, bytes); !status.ok())
      return status;
  return place.hasAll() ? Status::success()
                        : place.fabric->move(rank, root, data, bytes);
}

/// The sum of the terms of all points of the `reduce` axes, in their order.
Status fetchSum(const Place &place, const SliceLayout &layout,
                const RankBuffers &buffers, int64_t rank,
                std::optional<int64_t> root, Bytes &sum) {
  std::vector<Bytes> terms;
  std::vector<const char *> sources;
  for (int64_t member : layout.program.group(layout.form.reduce, rank)) {
    terms.emplace_back(sum.size());
    Status status =
        fetch(place, buffers, member, root, terms.back().data(), sum.size());
    if (!status.ok())
      return status;
  }
  for (const Bytes &term : terms)
    sources.push_back(reinterpret_cast<const char *>(term.data()));
  char *destination = reinterpret_cast<char *>(sum.data());
  sumInOrder(layout.type, int64_t(sum.size()) / elementBytes(layout.type),
             sources, std::span(&destination, 1));
  return Status::success();
}
} // namespace

Status gather(const Place &place, const SliceLayout &layout,
              const RankBuffers &buffers, void *whole,
              std::optional<int64_t> root) {
  bool wanted = isHere(place, root), isSum = !layout.form.reduce.empty();
  Bytes staged;
  for (int64_t rank : owners(layout.program, layout.form)) {
    std::optional<int64_t> offset = contiguousOffset(layout, rank);
    bool direct = wanted && offset && !isSum;
    if (!direct)
      staged.resize(size_t(sliceBytes(layout)));
    void *data = direct ? at(whole, *offset) : staged.data();
    Status status = isSum ? fetchSum(place, layout, buffers, rank, root, staged)
                          : fetch(place, buffers, rank, root, data,
                                  size_t(sliceBytes(layout)));
    if (!status.ok())
      return status;
    if (wanted && !direct)
      gatherFrom(layout, rank, data, whole);
  }
  return Status::success();
}

} // namespace tandem::rt
