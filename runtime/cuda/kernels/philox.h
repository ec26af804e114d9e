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

/// Of the numbers 4 `block` to 4 `block` + 3.
inline Bits4 drawBlock(uint64_t block, uint64_t seed, uint64_t step,
                       uint64_t ordinal) {
  uint32_t c[4] = {uint32_t(block), uint32_t(block >> 32), uint32_t(ordinal),
                   uint32_t(step)};
  uint32_t key0 = uint32_t(seed), key1 = uint32_t(seed >> 32);
  TANDEM_ROLL
  for (int round = 0; round < 10; ++round) {
    uint64_t x = uint64_t(0xD2511F53) * c[0], y = uint64_t(0xCD9E8D57) * c[2];
    uint32_t next0 = uint32_t(y >> 32) ^ c[1] ^ key0, next1 = uint32_t(y);
    uint32_t next2 = uint32_t(x >> 32) ^ c[3] ^ key1, next3 = uint32_t(x);
    c[0] = next0, c[1] = next1, c[2] = next2, c[3] = next3;
    key0 += 0x9E3779B9, key1 += 0xBB67AE85;
  }
  return Bits4{c[0], c[1], c[2], c[3]};
}

/// One of four; registers have no index.
inline uint32_t chosen(Bits4 bits, uint32_t place) {
  uint32_t low = place & 1 ? bits[1] : bits[0];
  uint32_t high = place & 1 ? bits[3] : bits[2];
  return place & 2 ? high : low;
}

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_KERNELS_PHILOX_H
