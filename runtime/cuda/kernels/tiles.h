//===- tiles.h - products of tiles in shared memory -------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A warp has `WarpRows` rows of a product; each of its threads has a *piece* of
// these: elements at rows and columns that the piece tells. Tiles lie in shared
// memory by rows of `kStride` elements, which are a multiple of 16 bytes, and
// no multiple of 128, so that neighbouring rows are in different banks.
//
// Three ways have the same functions: `MmaBf16` and `MmaTf32` use tensor cores
// (PTX ISA, mma.m16n8k16 and mma.m16n8k8, whose fragments decide which elements
// a thread has), `Fma` does not.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_KERNELS_TILES_H
#define TANDEM_RT_CUDA_KERNELS_TILES_H

#include "block.h"

namespace tandem::rt::cuda {

/// A thread's elements of `Rows` rows of a warp and `Columns` columns, as `mma`
/// has its results: every eighth row from g on, and neighbours in every eight
/// columns.
template <int Rows, int Columns> struct MmaPiece {
  static constexpr int kRows = Rows / 8, kColumns = Columns / 4;
  /// Columns that are neighbours.
  static constexpr int kRun = 2;
  /// Threads that share a row differ in these bits.
  static constexpr int kLanesPerRow = 4;
  float at[kRows][kColumns];

  static int row(int lane, int i) { return lane / 4 + 8 * i; }
  static int column(int lane, int c) {
    return c / 2 * 8 + lane % 4 * 2 + c % 2;
  }
  /// Where a bit of each element is in some words.
  static constexpr int kWords = 2 * kRows;
  static constexpr int word(int i, int c) { return 2 * i + c % 2; }
  static constexpr int bit(int, int c) { return c / 2 * 4; }
};

/// Neighbouring rows, and every eighth column (scores), or four neighbours of
/// every 32 (outputs): what is read by 16 bytes without a conflict of banks.
template <int Rows, int Columns, bool AreNeighbours> struct FmaPiece {
  static constexpr int kRows = Rows / 4, kColumns = Columns / 8;
  static constexpr int kLanesPerRow = 8, kRun = AreNeighbours ? 4 : 1;
  float at[kRows][kColumns];

  static int row(int lane, int i) { return lane / 8 * kRows + i; }
  static int column(int lane, int c) {
    return AreNeighbours ? c / 4 * 32 + lane % 8 * 4 + c % 4 : c * 8 + lane % 8;
  }
  static constexpr int kWords = kRows;
  static constexpr int word(int i, int) { return i; }
  static constexpr int bit(int, int c) { return c; }
};

/// Calls with the numbers of each of a piece's rows and columns, or of each
/// `Step`-th of the latter.
template <typename Piece, int Step = 1, typename Body>
TANDEM_INLINE void forEachElement(Body body) {
  TANDEM_UNROLL
  for (int i = 0; i < Piece::kRows; ++i)
    TANDEM_UNROLL
  for (int c = 0; c < Piece::kColumns; c += Step)
    body(i, c);
}

template <typename Piece> TANDEM_INLINE void clear(Piece &piece) {
  forEachElement<Piece>([&](int i, int c) { piece.at[i][c] = 0; });
}

/// `Width` columns of the rows that are multiplied, `Tile` rows at a time of
/// those by which they are.
template <int WarpRows, int Width, int Tile> struct MmaBf16 {
  static constexpr int kWarpRows = WarpRows, kWidth = Width, kTile = Tile;
  static_assert(WarpRows % 16 == 0);
  using Element = Bf16;
  using Scores = MmaPiece<WarpRows, Tile>;
  using Outputs = MmaPiece<WarpRows, Width>;
  static constexpr int kStride = Width + 8;
  static constexpr int kScratch = 0; ///< Bytes that a warp needs.

  /// scores += x yᵀ: of the warp's rows, from `x` on, and the tile's.
  TANDEM_INLINE static void addScores(Block block, Scores &scores, uint32_t x,
                                      uint32_t y);
  /// outputs += weights y.
  TANDEM_INLINE static void addOutputs(Block block, Outputs &outputs,
                                       const Scores &weights, uint32_t y,
                                       uint32_t scratch);

private:
  static constexpr int kMmas = WarpRows / 16; ///< Of 16 rows each.
  /// 16 columns from the piece's `column` on.
  template <typename Piece>
  TANDEM_INLINE static void multiply(Block block, Piece &piece, int column,
                                     const uint32_t (&a)[kMmas][4],
                                     const uint32_t (&b)[4]) {
    TANDEM_UNROLL
    for (int m = 0; m < kMmas; ++m)
      TANDEM_UNROLL
    for (int half = 0; half < 2; ++half)
      block.mmaBf16(&piece.at[2 * m][column + 2 * half],
                    &piece.at[2 * m + 1][column + 2 * half], a[m],
                    b + 2 * half);
  }
};

template <int WarpRows, int Width, int Tile> struct MmaTf32 {
  static constexpr int kWarpRows = WarpRows, kWidth = Width, kTile = Tile;
  static_assert(WarpRows == 16);
  using Element = float;
  using Scores = MmaPiece<WarpRows, Tile>;
  using Outputs = MmaPiece<WarpRows, Width>;
  static constexpr int kStride = Width + 4;
  static constexpr int kScratch = 0;

  TANDEM_INLINE static void addScores(Block block, Scores &scores, uint32_t x,
                                      uint32_t y);
  TANDEM_INLINE static void addOutputs(Block block, Outputs &outputs,
                                       const Scores &weights, uint32_t y,
                                       uint32_t scratch);
};

template <int WarpRows, int Width, int Tile> struct Fma {
  static constexpr int kWarpRows = WarpRows, kWidth = Width, kTile = Tile;
  static_assert(WarpRows == 16);
  using Element = float;
  using Scores = FmaPiece<WarpRows, Tile, false>;
  using Outputs = FmaPiece<WarpRows, Width, true>;
  static constexpr int kStride = Width + 4;
  static constexpr int kScratchStride = Tile + 4;
  static constexpr int kScratch = kWarpRows * kScratchStride * 4;

  TANDEM_INLINE static void addScores(Block block, Scores &scores, uint32_t x,
                                      uint32_t y);
  TANDEM_INLINE static void addOutputs(Block block, Outputs &outputs,
                                       const Scores &weights, uint32_t y,
                                       uint32_t scratch);
};

//===----------------------------------------------------------------------===//
// bfloat16 by tensor cores
//===----------------------------------------------------------------------===//

/// The four matrices of 8 by 8 that `loadMatrices` reads: of 16 rows and 16
/// columns, rows first. A lane tells where one of their 32 rows begins.
template <int WarpRows, int Width, int Tile>
TANDEM_INLINE void
MmaBf16<WarpRows, Width, Tile>::addScores(Block block, Scores &scores,
                                          uint32_t x, uint32_t y) {
  constexpr uint32_t bytes = kStride * 2;
  uint32_t lane = block.lane();
  uint32_t ofX = x + lane % 16 * bytes + lane / 16 * 16;
  // Of eight rows of y at a time, columns first: what `mma` takes as b.
  uint32_t ofY = y + (lane % 8 + lane / 16 * 8) * bytes + lane / 8 % 2 * 16;
  TANDEM_UNROLL
  for (int k = 0; k < Width / 16; ++k) {
    uint32_t a[kMmas][4];
    TANDEM_UNROLL
    for (int m = 0; m < kMmas; ++m)
      block.loadMatrices<false>(a[m], ofX + m * 16 * bytes + k * 32);
    TANDEM_UNROLL
    for (int n = 0; n < Tile / 16; ++n) {
      uint32_t b[4];
      block.loadMatrices<false>(b, ofY + n * 16 * bytes + k * 32);
      multiply(block, scores, 4 * n, a, b);
    }
  }
}

template <int WarpRows, int Width, int Tile>
TANDEM_INLINE void
MmaBf16<WarpRows, Width, Tile>::addOutputs(Block block, Outputs &outputs,
                                           const Scores &weights, uint32_t y,
                                           uint32_t) {
  constexpr uint32_t bytes = kStride * 2;
  uint32_t lane = block.lane();
  uint32_t ofY = y + lane % 16 * bytes + lane / 16 * 16;
  TANDEM_UNROLL
  for (int k = 0; k < Tile / 16; ++k) {
    uint32_t a[kMmas][4];
    TANDEM_UNROLL
    for (int half = 0; half < 2; ++half)
      TANDEM_UNROLL
    for (int i = 0; i < Scores::kRows; ++i)
      a[i / 2][half * 2 + i % 2] = Block::packBf16(
          weights.at[i][4 * k + 2 * half], weights.at[i][4 * k + 2 * half + 1]);
    TANDEM_UNROLL
    for (int n = 0; n < Width / 16; ++n) {
      uint32_t b[4];
      block.loadMatrices<true>(b, ofY + k * 16 * bytes + n * 32);
      multiply(block, outputs, 4 * n, a, b);
    }
  }
}

//===----------------------------------------------------------------------===//
// TF32 by tensor cores
//===----------------------------------------------------------------------===//

/// A product's terms may be added in any order, so that the k-th column and row
/// may be any, if it is the same: those of a piece's neighbours.
template <int WarpRows, int Width, int Tile>
TANDEM_INLINE void
MmaTf32<WarpRows, Width, Tile>::addScores(Block block, Scores &scores,
                                          uint32_t x, uint32_t y) {
  constexpr uint32_t bytes = kStride * 4;
  uint32_t g = block.lane() / 4, t = block.lane() % 4;
  TANDEM_ROLL
  for (int k = 0; k < Width / 8; ++k) {
    uint32_t a[4], ofX = x + g * bytes + (k * 8 + t) * 4;
    TANDEM_UNROLL
    for (int half = 0; half < 2; ++half)
      TANDEM_UNROLL
    for (int i = 0; i < 2; ++i)
      a[half * 2 + i] = block.toTf32(
          block.loadShared<float>(ofX + i * 8 * bytes + half * 16));
    TANDEM_UNROLL
    for (int n = 0; n < Tile / 8; ++n) {
      uint32_t b[2], ofY = y + (n * 8 + g) * bytes + (k * 8 + t) * 4;
      TANDEM_UNROLL
      for (int half = 0; half < 2; ++half)
        b[half] = block.toTf32(block.loadShared<float>(ofY + half * 16));
      block.mmaTf32(&scores.at[0][2 * n], &scores.at[1][2 * n], a, b);
    }
  }
}

template <int WarpRows, int Width, int Tile>
TANDEM_INLINE void
MmaTf32<WarpRows, Width, Tile>::addOutputs(Block block, Outputs &outputs,
                                           const Scores &weights, uint32_t y,
                                           uint32_t) {
  constexpr uint32_t bytes = kStride * 4;
  uint32_t g = block.lane() / 4, t = block.lane() % 4;
  TANDEM_UNROLL
  for (int k = 0; k < Tile / 8; ++k) {
    uint32_t a[4];
    TANDEM_UNROLL
    for (int half = 0; half < 2; ++half)
      TANDEM_UNROLL
    for (int i = 0; i < 2; ++i)
      a[half * 2 + i] = block.toTf32(weights.at[i][2 * k + half]);
    TANDEM_UNROLL
    for (int n = 0; n < Width / 8; ++n) {
      uint32_t b[2], ofY = y + (k * 8 + 2 * t) * bytes + (n * 8 + g) * 4;
      TANDEM_UNROLL
      for (int half = 0; half < 2; ++half)
        b[half] = block.toTf32(block.loadShared<float>(ofY + half * bytes));
      block.mmaTf32(&outputs.at[0][2 * n], &outputs.at[1][2 * n], a, b);
    }
  }
}

//===----------------------------------------------------------------------===//
// float32 without
//===----------------------------------------------------------------------===//

template <int WarpRows, int Width, int Tile>
TANDEM_INLINE void
Fma<WarpRows, Width, Tile>::addScores(Block block, Scores &scores, uint32_t x,
                                      uint32_t y) {
  constexpr uint32_t bytes = kStride * 4;
  int lane = int(block.lane());
  uint32_t ofX = x + uint32_t(Scores::row(lane, 0)) * bytes;
  uint32_t ofY = y + uint32_t(Scores::column(lane, 0)) * bytes;
  TANDEM_ROLL
  for (int k = 0; k < Width; k += 4) {
    Float4 a[Scores::kRows];
    TANDEM_UNROLL
    for (int i = 0; i < Scores::kRows; ++i)
      a[i] = block.loadShared<Float4>(ofX + i * bytes + k * 4);
    TANDEM_UNROLL
    for (int c = 0; c < Scores::kColumns; ++c) {
      Float4 b = block.loadShared<Float4>(ofY + c * 8 * bytes + k * 4);
      TANDEM_UNROLL
      for (int i = 0; i < Scores::kRows; ++i)
        TANDEM_UNROLL
      for (int e = 0; e < 4; ++e)
        scores.at[i][c] += a[i][e] * b[e];
    }
  }
}

/// The weights go to the other threads of the row by shared memory.
template <int WarpRows, int Width, int Tile>
TANDEM_INLINE void
Fma<WarpRows, Width, Tile>::addOutputs(Block block, Outputs &outputs,
                                       const Scores &weights, uint32_t y,
                                       uint32_t scratch) {
  constexpr uint32_t bytes = kStride * 4, scratchBytes = kScratchStride * 4;
  int lane = int(block.lane());
  block.barrier();
  TANDEM_UNROLL
  for (int i = 0; i < Scores::kRows; ++i)
    TANDEM_UNROLL
  for (int c = 0; c < Scores::kColumns; ++c)
    block.storeShared(scratch + uint32_t(Scores::row(lane, i)) * scratchBytes +
                          uint32_t(Scores::column(lane, c)) * 4,
                      weights.at[i][c]);
  block.barrier();
  uint32_t ofWeights = scratch + uint32_t(Outputs::row(lane, 0)) * scratchBytes;
  uint32_t ofY = y + uint32_t(Outputs::column(lane, 0)) * 4;
  TANDEM_ROLL
  for (int k = 0; k < Tile; k += 4) {
    Float4 a[Outputs::kRows];
    TANDEM_UNROLL
    for (int i = 0; i < Outputs::kRows; ++i)
      a[i] = block.loadShared<Float4>(ofWeights + i * scratchBytes + k * 4);
    TANDEM_UNROLL
    for (int e = 0; e < 4; ++e)
      TANDEM_UNROLL
    for (int c = 0; c < Outputs::kColumns; c += 4) {
      Float4 b = block.loadShared<Float4>(ofY + (k + e) * bytes + c * 32);
      TANDEM_UNROLL
      for (int i = 0; i < Outputs::kRows; ++i)
        TANDEM_UNROLL
      for (int q = 0; q < 4; ++q)
        outputs.at[i][c + q] += a[i][e] * b[q];
    }
  }
}

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_KERNELS_TILES_H
