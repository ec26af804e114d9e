//===- mma.cpp - products of a warp's fragments ---------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which elements of a matrix a thread has is said in the PTX ISA, "Matrix
// fragments for mma.m16n8k16 with floating point type" and those of m16n8k8.
//
//===----------------------------------------------------------------------===//

#include "emulator.h"

#include <bit>

namespace tandem::rt::cuda::emulated {

namespace {
/// One of two numbers of bfloat16, or a TF32, whose last 13 bits count nothing.
float elementOf(int32_t kind, uint32_t word, uint32_t half) {
  if (kind == TANDEM_RT_EMULATED_MMA_TF32)
    return std::bit_cast<float>(word & ~0x1fffu);
  return std::bit_cast<float>(half ? word & 0xffff0000 : word << 16);
}

struct Shape {
  uint32_t depth, ofWord; ///< k, and neighbours in a word.
};
} // namespace

void multiplyFragments(int32_t kind, const Given *warp, uint32_t lane,
                       float *upper, float *lower) {
  Shape shape =
      kind == TANDEM_RT_EMULATED_MMA_TF32 ? Shape{8, 1} : Shape{16, 2};
  uint32_t group = lane / 4, pair = lane % 4 * 2;
  double sums[2][2] = {{upper[0], upper[1]}, {lower[0], lower[1]}};
  for (uint32_t k = 0; k < shape.depth; ++k) {
    // Four threads side by side have as many words of half the depth.
    uint32_t side = k / shape.ofWord % 4, part = k * 2 / shape.depth;
    uint32_t half = k % shape.ofWord;
    for (uint32_t i = 0; i < 2; ++i)
      for (uint32_t j = 0; j < 2; ++j)
        sums[i][j] +=
            double(
                elementOf(kind, warp[group * 4 + side].a[part * 2 + i], half)) *
            elementOf(kind, warp[(pair + j) * 4 + side].b[part], half);
  }
  for (uint32_t j = 0; j < 2; ++j) {
    upper[j] = float(sums[0][j]);
    lower[j] = float(sums[1][j]);
  }
}

} // namespace tandem::rt::cuda::emulated
