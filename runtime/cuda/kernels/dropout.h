//===- dropout.h - dropout masks of attention -------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_KERNELS_DROPOUT_H
#define TANDEM_RT_CUDA_KERNELS_DROPOUT_H

#include "philox.h"
#include "words.h"

namespace tandem::rt::cuda {
namespace {
namespace at = attention;

/// Which of a piece's elements dropout keeps: a bit of each (`Piece::word`).
template <typename Piece> struct Kept {
  uint32_t words[Piece::kWords];
  bool has(int i, int c) const {
    return words[Piece::word(i, c)] >> Piece::bit(i, c) & 1;
  }
};

/// Draws bits and compares them.
struct Dropout {
  bool isOn;
  uint32_t most; ///< Of bits that are kept,
  bool keepsNone;
  uint64_t seed = 0, step = 0, ordinal = 0;
  float factor = 1; ///< of what is kept.

  explicit Dropout(Words w)
      : isOn(w[at::DropoutThreshold] >= 0),
        most(uint32_t(uint64_t(w[at::DropoutThreshold]) - 1)),
        keepsNone(w[at::DropoutThreshold] == 0) {
    if (!isOn)
      return;
    seed = uint64_t(w.array<int64_t>(at::DropoutSeed)[0]);
    step = uint64_t(w.array<int64_t>(at::DropoutStep)[0]);
    ordinal = uint64_t(w[at::DropoutOrdinal]);
    factor = keepsNone ? 0 : float(w.real(at::DropoutFactor));
  }
  bool keeps(uint32_t bits) const { return bits <= most && !keepsNone; }
  /// Of the four numbers of each of some blocks, a bit each.
  template <int Count>
  TANDEM_INLINE uint32_t keptOfBlocks(const uint64_t (&blocks)[Count]) const {
    Bits4 drawn[Count];
    drawBlocks<Count>(drawn, blocks, seed, step, ordinal);
    uint32_t kept = 0;
    TANDEM_UNROLL
    for (int n = 0; n < Count; ++n)
      TANDEM_UNROLL
    for (int e = 0; e < 4; ++e)
      kept |= drawn[n][e] <= most ? 1u << (4 * n + e) : 0;
    return keepsNone ? 0 : kept;
  }
};

/// Of any number. Not inlined: it is asked for at many unrolled elements.
[[gnu::noinline, gnu::pure]] bool keptOf(uint64_t number, Words w) {
  Dropout dropout(w);
  return dropout.keeps(
      chosen(drawBlock(number / 4, dropout.seed, dropout.step, dropout.ordinal),
             number % 4));
}
} // namespace
} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_KERNELS_DROPOUT_H
