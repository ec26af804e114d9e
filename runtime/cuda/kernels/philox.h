//===- philox.h - random bits by number -------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011), with the bits that the CPU has.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_KERNELS_PHILOX_H
#define TANDEM_RT_CUDA_KERNELS_PHILOX_H

#include "gpu.h"

namespace tandem::rt::cuda {

using Bits4 = BitsOf<16>::Type;

/// Of the numbers 4 `block` to 4 `block` + 3, for each of some blocks, side by
/// side.
template <int Count>
TANDEM_INLINE void drawBlocks(Bits4 (&drawn)[Count],
                              const uint64_t (&blocks)[Count], uint64_t seed,
                              uint64_t step, uint64_t ordinal) {
  uint32_t c[Count][4];
  TANDEM_UNROLL
  for (int n = 0; n < Count; ++n)
    c[n][0] = uint32_t(blocks[n]), c[n][1] = uint32_t(blocks[n] >> 32),
    c[n][2] = uint32_t(ordinal), c[n][3] = uint32_t(step);
  uint32_t key0 = uint32_t(seed), key1 = uint32_t(seed >> 32);
  TANDEM_ROLL
  for (int round = 0; round < 10; ++round) {
    TANDEM_UNROLL
    for (int n = 0; n < Count; ++n) {
      uint64_t x = uint64_t(0xD2511F53) * c[n][0];
      uint64_t y = uint64_t(0xCD9E8D57) * c[n][2];
      c[n][0] = uint32_t(y >> 32) ^ c[n][1] ^ key0, c[n][1] = uint32_t(y);
      c[n][2] = uint32_t(x >> 32) ^ c[n][3] ^ key1, c[n][3] = uint32_t(x);
    }
    key0 += 0x9E3779B9, key1 += 0xBB67AE85;
  }
  TANDEM_UNROLL
  for (int n = 0; n < Count; ++n)
    drawn[n] = Bits4{c[n][0], c[n][1], c[n][2], c[n][3]};
}

inline Bits4 drawBlock(uint64_t block, uint64_t seed, uint64_t step,
                       uint64_t ordinal) {
  Bits4 drawn[1];
  drawBlocks<1>(drawn, {block}, seed, step, ordinal);
  return drawn[0];
}

/// One of four; registers have no index.
inline uint32_t chosen(Bits4 bits, uint32_t place) {
  uint32_t low = place & 1 ? bits[1] : bits[0];
  uint32_t high = place & 1 ? bits[3] : bits[2];
  return place & 2 ? high : low;
}

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_KERNELS_PHILOX_H
