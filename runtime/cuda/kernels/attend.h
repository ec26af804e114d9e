//===- attend.h - attention by tiles ----------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block has 64 or 128 *rows*, which are queries (of the output, and of the
// gradient of queries) or keys (of the gradients of keys and values), and goes
// over the others, the *columns*, a tile at a time. The softmax is put together
// from tiles (Milakov and Gimelshein, "Online normalizer calculation for
// softmax", 2018; Dao, "FlashAttention-2", 2023); the backward has the weights
// again from the log-sum-exp. Each block alone writes its rows, and adds up in
// the order of tiles, so nothing depends on the order of blocks.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_KERNELS_ATTEND_H
#define TANDEM_RT_CUDA_KERNELS_ATTEND_H

#include "dropout.h"
#include "tiles.h"
#include "words.h"

namespace tandem::rt::cuda {
namespace {
namespace at = attention;

constexpr float kLog2OfE = 1.4426950408889634f, kLn2 = 0.6931471805599453f;
constexpr float kHidden = -__builtin_inff(), kLowest = -__FLT_MAX__;

typedef float Float2 __attribute__((vector_size(8)));
typedef int32_t Int2 __attribute__((vector_size(8)));

/// What is known of each query of a block's rows or of a tile, in shared memory
/// from the begin of a *set*, of which there are two.
template <int Queries> struct FactsOf {
  /// Of `Queries` queries each: a number that is taken from the scores, which
  /// is 0 but where masks are added, another one whose sum with it is the
  /// log-sum-exp by the logarithm of base 2, and the sum of the output times
  /// its gradient; the first and the last key that is seen; and the number of
  /// the row's first random number.
  static constexpr uint32_t kWhole = 0, kSpan = kWhole + 8 * Queries,
                            kMost = kSpan + 8 * Queries,
                            kRandom = kMost + 4 * Queries,
                            kEnd = kRandom + 8 * Queries;
  static constexpr uint32_t kDelta = kWhole + 4; ///< Behind the total.
  static_assert(kEnd == at::factBytes(Queries));
};

/// What memory has of a query, of which nothing is computed yet: a thread that
/// reads it and multiplies a tile before it stores facts waits for nothing.
struct QueryWords {
  bool isThere = false, isQuery = false;
  int64_t position = 0, randomRow = 0;
  float logSumExp = 0, most = 0, total = 0, delta = 0;
};
/// Which of these a kernel has.
enum class Pass { Forward, Queries, Keys };

/// Rows of one head of a tensor in memory.
template <typename T> struct Rows {
  Array<T> elements;
  int64_t stride;
  int count, width;

  Rows from(int first) const {
    return {
        {elements.gpu, elements.address + uint64_t(first * stride) * sizeof(T)},
        stride,
        count - first,
        width};
  }
};

/// A block's work by `Way` (tiles.h), with `Resident` tensors whose rows are
/// the block's in shared memory throughout.
template <typename Way, int Resident> class Attend {
public:
  Attend(Words w, Block block)
      : w(w), block(block), lane(int(block.lane())), heads(int(w[at::Heads])),
        keyHeads(int(w[at::KeyHeads])), queries(int(w[at::Queries])),
        keys(int(w[at::Keys])), scale(float(w.real(at::Scale)) * kLog2OfE),
        isWide(w[at::IsWide]), shifts(w[at::Totals]), hasMask(w[at::Mask]),
        dropout(w), copies(block) {}

  void forward();
  void queryGradient();
  void keyGradients();

private:
  using T = typename Way::Element;
  using Scores = typename Way::Scores;
  using Outputs = typename Way::Outputs;
  static constexpr int kWidth = Way::kWidth, kTile = Way::kTile;
  static constexpr int kBlockRows = at::kTileWarps * Way::kWarpRows;
  using Facts = FactsOf<kBlockRows>;
  // Facts are of either, one of a thread.
  static_assert(kTile <= kBlockRows && kBlockRows <= at::kTileThreads);
  static constexpr uint32_t kFactBytes = at::factBytes(kBlockRows);
  static constexpr uint32_t kRowBytes = at::rowBytes(kWidth, sizeof(T));
  static_assert(kRowBytes == Way::kStride * sizeof(T));
  static constexpr int kStages = at::numStages(sizeof(T));
  // Tiles of shared memory: the block's rows, and those of the columns.
  static constexpr uint32_t kX1 = 2 * kFactBytes,
                            kX2 = kX1 + (Resident - 1) * kBlockRows * kRowBytes,
                            kY = kX2 + kBlockRows * kRowBytes,
                            kTileBytes = kTile * kRowBytes,
                            kScratch = kY + 2 * kStages * kTileBytes;
  static_assert(kScratch + at::kTileWarps * Way::kScratch ==
                at::sharedBytes(kWidth, sizeof(T), kBlockRows, kTile, Resident,
                                Way::kScratch));
  static uint32_t firstTile(int stage) {
    return kY + uint32_t(stage) * 2 * kTileBytes;
  }
  static uint32_t secondTile(int stage) {
    return firstTile(stage) + kTileBytes;
  }

  //===--- Memory ---------------------------------------------------------===//

  Rows<T> rowsOf(int tensor, int ofHead, int first, int total,
                 int width) const {
    int64_t offset =
        batch * w[tensor + 1] + ofHead * w[tensor + 2] + first * w[tensor + 3];
    return {{w.gpu, uint64_t(w[tensor]) + uint64_t(offset) * sizeof(T)},
            w[tensor + 3],
            total - first,
            int(w[width])};
  }
  Rows<T> queryRows(int tensor, int ofHead, int first, int width) const {
    return rowsOf(tensor, ofHead, first, queries, width);
  }
  Rows<T> keyRows(int tensor, int first, int width) const {
    return rowsOf(tensor, head / (heads / keyHeads), first, keys, width);
  }
  template <int NumRows, typename Body> void forEachChunk(Body body) const;
  template <int NumRows> void load(uint32_t tile, const Rows<T> &from);
  /// The tensors that a block goes over, of one head: keys and values, or
  /// queries and gradients of the output.
  struct Columns {
    Rows<T> first, second;
  };
  Columns keyColumns() const {
    return {keyRows(at::Key, 0, at::Width),
            keyRows(at::Value, 0, at::ValueWidth)};
  }
  Columns queryColumns(int ofHead) const {
    return {queryRows(at::Query, ofHead, 0, at::Width),
            queryRows(at::OutputGradient, ofHead, 0, at::ValueWidth)};
  }
  void load(int stage, const Columns &columns, int column) {
    load<kTile>(firstTile(stage), columns.first.from(column));
    load<kTile>(secondTile(stage), columns.second.from(column));
  }
  void store(const Rows<T> &to, uint32_t tile) const;
  void keep(uint32_t tile, const Outputs &outputs, float factor) const;
  uint32_t ofWarp(uint32_t tile) const {
    return tile + block.warp() * Way::kWarpRows * kRowBytes;
  }
  uint32_t scratch() const {
    return kScratch + block.warp() * uint32_t(Way::kScratch);
  }
  /// All have come to the end of a tile of columns, and the next one is there.
  template <typename Load> void nextTile(Load load) {
    if constexpr (kStages == 1) {
      block.barrier();
      load();
    }
    copies.wait();
    block.barrier();
  }

  //===--- Facts ----------------------------------------------------------===//

  void findRows(int total, int numHeads, bool areLastLongest);
  QueryWords read(Pass pass, int ofHead, int firstQuery, int count) const;
  void storeFacts(Pass pass, int set, const QueryWords &words) const;
  template <typename N> N fact(uint32_t which, int query) const {
    return block.loadShared<N>(facts + which +
                               uint32_t(query) * uint32_t(sizeof(N)));
  }
  /// Of keys from the first to behind the last: those that any of some queries
  /// sees, and those that each of them does.
  struct Span {
    int begin, end, allBegin, allEnd;
    bool hasAll(int first, int last) const {
      return first >= allBegin && last <= allEnd;
    }
  };
  Span keysSeenBy(int count) const;
  struct Range {
    int begin, end;
  };
  Range queriesThatSee() const;
  template <typename Body> void forEachKeyTile(const Span &seen, Body body);
  void computeDeltas() const;

  //===--- Scores ---------------------------------------------------------===//

  /// The number of a piece's row among the block's.
  int rowOf(int i) const {
    return int(block.warp()) * Way::kWarpRows + Scores::row(lane, i);
  }
  /// Of an element whose row is the i-th of a piece: in a *transposed* piece
  /// rows are keys.
  struct Place {
    int query;    ///< Of those whose facts are there.
    int numQuery; ///< Of all.
    int key;
  };
  template <bool IsTransposed>
  Place placeOf(int firstColumn, int i, int c) const {
    int row = rowOf(i), column = Scores::column(lane, c);
    if (IsTransposed)
      return {column, firstColumn + column, first + row};
    return {row, first + row, firstColumn + column};
  }
  template <bool IsTransposed>
  bool isWhole(const Span &span, int firstColumn) const {
    return IsTransposed ? span.hasAll(first, first + kBlockRows)
                        : span.hasAll(firstColumn, firstColumn + kTile);
  }
  template <bool IsTransposed>
  void hide(Scores &scores, const Span &span, int firstColumn) const;
  template <bool IsTransposed>
  void addMask(Scores &scores, int firstColumn) const;
  template <bool IsTransposed> Kept<Scores> draw(int firstColumn) const;
  template <bool IsTransposed>
  void drawByBlocks(Kept<Scores> &kept, int firstColumn) const;
  void addToSoftmax(Scores &scores, float *most, float *sums,
                    Outputs &outputs) const;
  template <bool IsTransposed>
  void makeGradients(Scores &scores, Scores &ofWeights, const Span &span,
                     const Kept<Scores> &kept, int firstColumn) const;

  Words w;
  Block block;
  int lane;
  int heads, keyHeads, queries, keys;
  float scale; ///< Scores are logarithms of base 2.
  bool isWide, shifts, hasMask;
  Dropout dropout;
  Copies copies;
  /// What the block's rows are of, and the first of them.
  int batch = 0, head = 0, first = 0;
  uint32_t facts = 0; ///< Where the present set begins.
};

#define TANDEM_ATTEND(type)                                                    \
  template <typename Way, int Resident> TANDEM_INLINE type Attend<Way, Resident>
} // namespace
} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_KERNELS_ATTEND_H
