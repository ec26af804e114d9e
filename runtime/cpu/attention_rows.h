//===- attention_rows.h - softmax of attention rows -------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each for float and double, in vectors of the CPU at hand. `columns` is a
// multiple of kLanes where nothing else is said; all sums are in an order that
// depends on it alone.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CPU_ATTENTION_ROWS_H
#define TANDEM_RT_CPU_ATTENTION_ROWS_H

#include "cpu/block_product.h"

#include <cstdint>

namespace tandem::rt::cpu {

inline constexpr int64_t kLanes = 16;

/// A step of a softmax over a row in pieces: `scores` become e^(score - most),
/// where `most` and `sum` are what they were before, and then with these
/// scores. Returns what sums of the pieces before have to be multiplied by. A
/// row of -inf becomes zeros.
float softmaxRow(float *scores, int64_t columns, float &most, float &sum);
double softmaxRow(double *scores, int64_t columns, double &most, double &sum);

/// `scores` become e^(score - logsumexp), zeros if that is -inf.
void weightRow(float *scores, int64_t columns, float logsumexp);
void weightRow(double *scores, int64_t columns, double logsumexp);

/// `gradients` of weights become those of scores:
/// scale weight (gradient - delta).
void gradientRow(const float *weights, float *gradients, int64_t columns,
                 float delta, float scale);
void gradientRow(const double *weights, double *gradients, int64_t columns,
                 double delta, double scale);

/// What the bits of dropout are made of (Philox4x32-10).
struct KeptBits {
  uint64_t seed, step, ordinal;
  uint64_t threshold; ///< Kept are those below.
};

/// `factor` where the bits of index, index + 1, ... are kept, else 0.
void keepRow(float *kept, int64_t columns, uint64_t index, const KeptBits &bits,
             float factor);
void keepRow(double *kept, int64_t columns, uint64_t index,
             const KeptBits &bits, double factor);

/// to[i] *= by[i].
void multiplyRow(float *to, const float *by, int64_t columns);
void multiplyRow(double *to, const double *by, int64_t columns);

/// to[i] = from[i] factor, rounded as floatToBf16 does, and the sum of a[i]
/// b[i]; of any number of columns.
void scaleRow(float *to, const float *from, int64_t columns, float factor);
void scaleRow(double *to, const double *from, int64_t columns, double factor);
void scaleRow(Bf16 *to, const float *from, int64_t columns, float factor);
float dotRow(const float *a, const float *b, int64_t columns);
double dotRow(const double *a, const double *b, int64_t columns);
float dotRow(const Bf16 *a, const Bf16 *b, int64_t columns);

} // namespace tandem::rt::cpu

#endif // TANDEM_RT_CPU_ATTENTION_ROWS_H
