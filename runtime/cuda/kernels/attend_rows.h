//===- attend_rows.h - memory and facts of attention by tiles ---*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_KERNELS_ATTEND_ROWS_H
#define TANDEM_RT_CUDA_KERNELS_ATTEND_ROWS_H

#include "attend.h"

namespace tandem::rt::cuda {
namespace {
namespace at = attention;

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Calls with row and column of each 16 bytes of some rows.
template <typename Way, int Resident>
template <int NumRows, typename Body>
TANDEM_INLINE void Attend<Way, Resident>::forEachChunk(Body body) const {
  constexpr int each = 16 / int(sizeof(T)), chunks = kWidth / each;
  constexpr int count = NumRows * chunks;
  int thread = int(block.thread());
  TANDEM_UNROLL
  for (int n = 0; n < count; n += at::kTileThreads)
    if (count - n >= at::kTileThreads || n + thread < count)
      body((n + thread) / chunks, (n + thread) % chunks * each);
}

/// Zeros where there are no rows and columns. What comes by 16 bytes is there
/// when the copies are.
template <typename Way, int Resident>
template <int NumRows>
TANDEM_INLINE void Attend<Way, Resident>::load(uint32_t tile,
                                               const Rows<T> &from) {
  constexpr int each = 16 / int(sizeof(T)), chunks = kWidth / each;
  constexpr int step = at::kTileThreads / chunks; // rows at a time
  int row = int(block.thread()) / chunks;
  int column = int(block.thread()) % chunks * each;
  uint32_t to =
      tile + uint32_t(row) * kRowBytes + uint32_t(column) * uint32_t(sizeof(T));
  int width = from.width - column;
  if (isWide) {
    uint64_t address = from.elements.address +
                       uint64_t(row * from.stride + column) * sizeof(T);
    uint64_t stride = uint64_t(from.stride) * step * sizeof(T);
    int count = width > 0 ? (from.count < NumRows ? from.count : NumRows) : 0;
    TANDEM_ROLL
    for (; row < NumRows; row += step) {
      if (row < count)
        copies.add(to, address);
      else
        block.storeShared(to, Word4{});
      to += step * kRowBytes, address += stride;
    }
    return;
  }
  TANDEM_ROLL
  for (; row < NumRows; row += step, to += step * kRowBytes) {
    int count = row < from.count ? width : 0;
    for (int e = 0; e < each; ++e)
      block.storeShared(
          to + e * uint32_t(sizeof(T)),
          e < count ? from.elements[row * from.stride + column + e] : T{});
  }
}

TANDEM_ATTEND(void)::store(const Rows<T> &to, uint32_t tile) const {
  constexpr int each = 16 / int(sizeof(T));
  forEachChunk<kBlockRows>([&](int row, int column) {
    uint32_t from = tile + uint32_t(row) * kRowBytes +
                    uint32_t(column) * uint32_t(sizeof(T));
    int64_t place = row * to.stride + column;
    int count = row < to.count ? to.width - column : 0;
    if (isWide && count > 0) {
      w.gpu.store(to.elements.address + uint64_t(place) * sizeof(T),
                  block.loadShared<Word4>(from));
      return;
    }
    for (int e = 0; e < each && e < count; ++e)
      to.elements.set(place + e,
                      block.loadShared<T>(from + e * uint32_t(sizeof(T))));
  });
}

/// The outputs times a factor, where the block's rows of a tensor were.
TANDEM_ATTEND(void)::keep(uint32_t tile, const Outputs &outputs,
                          float factor) const {
  forEachElement<Outputs>([&](int i, int c) {
    block.storeShared(
        ofWarp(tile) + uint32_t(Outputs::row(lane, i)) * kRowBytes +
            uint32_t(Outputs::column(lane, c)) * uint32_t(sizeof(T)),
        Wide<T>::narrow(outputs.at[i][c] * factor));
  });
}

//===----------------------------------------------------------------------===//
// Facts
//===----------------------------------------------------------------------===//

/// Blocks with much to do come first: with keys seen up to the query's own,
/// those of the last queries and of the first keys.
TANDEM_ATTEND(void)::findRows(int total, int numHeads, bool areLastLongest) {
  int tiles = (total + kBlockRows - 1) / kBlockRows;
  int each = numHeads * int(w[at::NumBatches]), number = int(block.number());
  int tile = number / each;
  first = (areLastLongest ? tiles - 1 - tile : tile) * kBlockRows;
  head = number % each % numHeads;
  batch = number % each / numHeads;
}

/// Of one of `count` queries of a head, if the thread has one.
TANDEM_ATTEND(QueryWords)::read(Pass pass, int ofHead, int firstQuery,
                                int count) const {
  QueryWords words;
  int query = firstQuery + int(block.thread());
  words.isThere = int(block.thread()) < count;
  words.isQuery = words.isThere && query < queries;
  if (!words.isQuery)
    return words;
  int64_t number = int64_t(batch * heads + ofHead) * queries + query;
  if (w[at::Before] >= 0 || w[at::After] >= 0)
    words.position = w.array<int64_t>(at::Positions)[query];
  if (dropout.isOn)
    words.randomRow = w.array<int64_t>(at::DropoutRows)[number];
  if (pass == Pass::Forward)
    return words;
  words.logSumExp = w.array<float>(at::LogSumExp)[number];
  if (shifts) {
    auto totals = w.array<float>(at::Totals);
    words.most = totals[2 * number], words.total = totals[2 * number + 1];
  }
  if (pass == Pass::Keys)
    words.delta = w.array<float>(at::Deltas)[number];
  return words;
}

TANDEM_ATTEND(void)::storeFacts(Pass pass, int set,
                                const QueryWords &words) const {
  if (!words.isThere)
    return;
  int64_t least = 1, most = 0; // none
  if (words.isQuery) {
    int64_t before = w[at::Before], after = w[at::After];
    int64_t position = words.position;
    least = before < 0 || position < before ? 0 : position - before;
    most = after < 0 || position + after >= keys ? keys - 1 : position + after;
    least = least > keys ? keys : least;
    most = most < -1 ? -1 : most;
    if (pass != Pass::Forward && words.logSumExp == kHidden)
      least = keys;
  }
  uint32_t to = uint32_t(set) * kFactBytes, n = block.thread();
  block.storeShared(to + Facts::kSpan + n * 8,
                    Int2{int32_t(least), int32_t(most)});
  block.storeShared(to + Facts::kRandom + n * 8,
                    uint64_t(words.randomRow) * uint64_t(keys));
  if (pass == Pass::Forward)
    return;
  block.storeShared(to + Facts::kMost + n * 4, words.most);
  block.storeShared(to + Facts::kWhole + n * 8,
                    shifts ? words.total : words.logSumExp * kLog2OfE);
  if (pass == Pass::Keys) // else others compute it
    block.storeShared(to + Facts::kDelta + n * 8, words.delta);
}

/// All threads get the same.
TANDEM_ATTEND(auto)::keysSeenBy(int count) const -> Span {
  Span span = {keys, 0, 0, keys};
  TANDEM_UNROLL
  for (int n = 0; n < kBlockRows; n += 32) {
    if (n + lane >= count)
      continue;
    auto seen = fact<Int2>(Facts::kSpan, n + lane);
    int begin = seen[0], end = seen[1] + 1;
    span.allBegin = begin > span.allBegin ? begin : span.allBegin;
    span.allEnd = end < span.allEnd ? end : span.allEnd;
    if (begin >= end)
      continue;
    span.begin = begin < span.begin ? begin : span.begin;
    span.end = end > span.end ? end : span.end;
  }
  return {block.minOfWarp(span.begin), block.maxOfWarp(span.end),
          block.maxOfWarp(span.allBegin), block.minOfWarp(span.allEnd)};
}

/// From the first to behind the last query that, by its position, sees one of
/// the block's keys. Called once, as it is put together in a set of facts.
TANDEM_ATTEND(auto)::queriesThatSee() const -> Range {
  int64_t before = w[at::Before], after = w[at::After];
  if (before < 0 && after < 0)
    return {0, queries};
  auto positions = w.array<int64_t>(at::Positions);
  int32_t begin = queries, end = 0;
  TANDEM_ROLL
  for (int query = int(block.thread()); query < queries;
       query += at::kTileThreads) {
    int64_t position = positions[query];
    bool isSeen = (before < 0 || position - before < first + kBlockRows) &&
                  (after < 0 || position + after >= first);
    if (!isSeen)
      continue;
    begin = query < begin ? query : begin;
    end = query + 1;
  }
  Int2 own = {block.minOfWarp(begin), block.maxOfWarp(end)};
  if (lane == 0)
    block.storeShared(block.warp() * 8, own);
  block.barrier();
  TANDEM_UNROLL
  for (uint32_t warp = 0; warp < at::kTileWarps; ++warp) {
    Int2 other = block.loadShared<Int2>(warp * 8);
    own[0] = other[0] < own[0] ? other[0] : own[0];
    own[1] = other[1] > own[1] ? other[1] : own[1];
  }
  block.barrier();
  return {own[0] / kTile * kTile, own[1]};
}

/// Of the block's rows, for itself and for the kernel that comes next.
TANDEM_ATTEND(void)::computeDeltas() const {
  Rows<T> gradient = queryRows(at::OutputGradient, head, first, at::ValueWidth);
  Rows<T> output = queryRows(at::Output, head, first, at::ValueWidth);
  constexpr int each = 16 / int(sizeof(T)), chunks = kWidth / each;
  struct Chunk {
    T at[each];
  };
  forEachChunk<kBlockRows>([&](int row, int column) {
    float sum = 0;
    int count = row < output.count ? output.width - column : 0;
    int64_t ofGradient = row * gradient.stride + column;
    int64_t ofOutput = row * output.stride + column;
    if (isWide && count > 0) {
      auto chunkOf = [&](const Rows<T> &rows, int64_t place) {
        return __builtin_bit_cast(
            Chunk, w.gpu.load<Word4>(rows.elements.address +
                                     uint64_t(place) * sizeof(T)));
      };
      Chunk a = chunkOf(gradient, ofGradient), b = chunkOf(output, ofOutput);
      TANDEM_UNROLL
      for (int e = 0; e < each; ++e)
        sum += Wide<T>::widen(a.at[e]) * Wide<T>::widen(b.at[e]);
    } else {
      TANDEM_ROLL
      for (int e = 0; e < each && e < count; ++e)
        sum += Wide<T>::widen(gradient.elements[ofGradient + e]) *
               Wide<T>::widen(output.elements[ofOutput + e]);
    }
    sum = block.sumOfRow(sum, chunks);
    if (column != 0 || row >= output.count)
      return;
    block.storeShared(Facts::kDelta + uint32_t(row) * 8, sum);
    int64_t number = int64_t(batch * heads + head) * queries + first + row;
    w.array<float>(at::Deltas).set(number, sum);
  });
}
} // namespace
} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_KERNELS_ATTEND_ROWS_H
