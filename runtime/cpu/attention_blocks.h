//===- attention_blocks.h - attention by blocks -----------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What forward and backward have in common: where operands lie, which keys a
// block of queries sees, and the block's scores. Scores exist for one block of
// queries and one of keys at a time.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CPU_ATTENTION_BLOCKS_H
#define TANDEM_RT_CPU_ATTENTION_BLOCKS_H

#include "core/attention.h"
#include "cpu/attention_rows.h"
#include "cpu/block_product.h"
#include "cpu/task.h"

#include <algorithm>
#include <limits>
#include <type_traits>

namespace tandem::rt::cpu {

/// Queries and keys of a block.
inline constexpr int64_t kBlockQueries = 128, kBlockKeys = 512;
/// Of the scores of a block.
inline constexpr int64_t kMaxScores = kBlockQueries * (kBlockKeys + kLanes);

inline int64_t padded(int64_t columns) {
  return (columns + kLanes - 1) / kLanes * kLanes;
}

/// In which a block is computed.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

inline float widen(float x) { return x; }
inline double widen(double x) { return x; }
inline float widen(Bf16 x) { return bf16ToFloat(x.bits); }

/// A tensor of an iteration.
template <typename T> struct Rows {
  T *data = nullptr;
  const int64_t *strides = nullptr;

  T *at(int64_t batch, int64_t head, int64_t row) const {
    return data + batch * strides[0] + head * strides[1] + row * strides[2];
  }
  int64_t leading() const { return strides[2]; }
};

/// `count` things from `first` on.
struct Span {
  int64_t first, count;
  int64_t end() const { return first + count; }
};

/// Rows of queries of one head.
struct QueryBlock {
  int64_t batch, head;
  Span rows;
  /// The number of the first row over batch, heads and queries.
  int64_t number;
};

/// The operands of an attention command at one iteration.
template <typename T> class AttentionBlocks {
public:
  using W = Wide<T>;

  AttentionBlocks(const Attention &op, const RankMemory &memory,
                  int64_t iteration);

  QueryBlock block(int64_t batch, int64_t head, int64_t index) const {
    int64_t first = index * kBlockQueries;
    Span rows = {first, std::min(kBlockQueries, op.queries - first)};
    return {batch, head, rows, (batch * op.heads + head) * op.queries + first};
  }
  int64_t countQueryBlocks() const {
    return (op.queries + kBlockQueries - 1) / kBlockQueries;
  }
  Span keys(int64_t index) const {
    int64_t first = index * kBlockKeys;
    return {first, std::min(kBlockKeys, op.keys - first)};
  }
  /// The blocks of keys of which the queries see some.
  Span seenKeyBlocks(const QueryBlock &block) const;
  int64_t keyHead(int64_t head) const {
    return head / (op.heads / op.keyHeads);
  }

  /// From a row of scores to the next: an odd multiple of kLanes, as rows at
  /// powers of two share few sets of a cache.
  int64_t scoresLeading() const {
    int64_t vectors = padded(std::min(kBlockKeys, op.keys)) / kLanes;
    return (vectors | 1) * kLanes;
  }
  /// The columns of a row of a block's scores that are worked on: whole vectors
  /// around what a band leaves. The weights of others are 0.
  Span columnsOf(const QueryBlock &block, Span keys, int64_t i) const {
    auto [begin, end] = bandOf(block, keys, i);
    int64_t first = begin / kLanes * kLanes;
    return {first, begin == end ? 0 : padded(end) - first};
  }
  /// Scaled and masked scores of these columns.
  void computeScores(const QueryBlock &block, Span keys, W *scores) const;
  /// What dropout multiplies weights by, where a band leaves some; elsewhere
  /// `kept` stays what it was.
  void computeKept(const QueryBlock &block, Span keys, W *kept) const;

  template <typename U> Rows<U> rows(const AttentionTensor &tensor) const {
    return {pointer<U>(tensor.buffer), tensor.strides.data()};
  }

  const Attention &op;
  Rows<const T> query, key, value;
  Rows<T> output;
  W *logsumexp;

private:
  template <typename U> U *pointer(const BufferRef &ref) const {
    return reinterpret_cast<U *>(memory.address(ref).at(iteration));
  }
  /// Of the columns of a block's scores those that a band leaves in row `i`.
  std::pair<int64_t, int64_t> bandOf(const QueryBlock &block, Span keys,
                                     int64_t i) const;
  void applyBand(const QueryBlock &block, Span keys, W *scores) const;
  void applyMask(const QueryBlock &block, Span keys, W *scores) const;

  const RankMemory &memory;
  int64_t iteration;
  const char *mask = nullptr;
  const int64_t *positions = nullptr, *numbers = nullptr;
  KeptBits bits = {};
};

/// Memory of the thread that calls, of at least `count` elements; contents are
/// those of the last call with this `Tag`.
template <typename Tag, typename T> T *scratch(int64_t count) {
  thread_local std::vector<T> memory;
  if (memory.size() < size_t(count))
    memory.resize(size_t(count));
  return memory.data();
}

/// A block of weights, or of gradients of scores, as libraries multiply it:
/// itself, or a copy in `to`. Columns that are not worked on become 0.
template <typename T>
const T *narrowBlock(const AttentionBlocks<T> &blocks, const QueryBlock &block,
                     Span keys, Wide<T> *from, T *to) {
  constexpr bool isNarrow = !std::is_same_v<T, Wide<T>>;
  if constexpr (!isNarrow)
    to = from;
  for (int64_t i = 0; i < block.rows.count; ++i) {
    Span columns = blocks.columnsOf(block, keys, i);
    int64_t at = i * blocks.scoresLeading();
    if constexpr (isNarrow)
      scaleRow(to + at + columns.first, from + at + columns.first,
               columns.count, Wide<T>(1));
    std::fill(to + at, to + at + columns.first, T());
    std::fill(to + at + std::min(columns.end(), keys.count),
              to + at + keys.count, T());
  }
  return to;
}

/// Elements of a block, if it has to be copied for libraries.
template <typename T>
inline constexpr int64_t kNarrowed =
    std::is_same_v<T, Wide<T>> ? 0 : kMaxScores;

/// Of the numbers `first` to `end` over the batch and the heads, for the
/// backward those of the keys: what different threads may do.
template <typename T>
void runForward(const AttentionBlocks<T> &blocks, int64_t first, int64_t end);
template <typename T>
void runBackward(const AttentionBlocks<T> &blocks, int64_t first, int64_t end);

extern template class AttentionBlocks<float>;
extern template class AttentionBlocks<double>;
extern template class AttentionBlocks<Bf16>;

} // namespace tandem::rt::cpu

#endif // TANDEM_RT_CPU_ATTENTION_BLOCKS_H
