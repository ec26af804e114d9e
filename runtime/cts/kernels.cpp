//===- kernels.cpp - kernels as the compiler would make them --------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiled to a shared object of its own, whose bytes the tests put into
// Programs.
//
//===----------------------------------------------------------------------===//

#include <cstdint>

extern "C" {
void (*tandem_rt_report_error_hook)(const char *) = nullptr;

/// out[i] = in[i] * scalars[1] + scalars[2], over scalars[0] f32.
void affine(void *const *buffers, const int64_t *scalars) {
  const float *in = static_cast<const float *>(buffers[0]);
  float *out = static_cast<float *>(buffers[1]);
  for (int64_t i = 0; i < scalars[0]; ++i)
    out[i] = in[i] * float(scalars[1]) + float(scalars[2]);
}

/// p -= lr * g, over scalars[0] f32: in place.
void sgd(void *const *buffers, const int64_t *scalars) {
  const float *g = static_cast<const float *>(buffers[1]);
  float lr = *static_cast<const float *>(buffers[2]);
  float *p = static_cast<float *>(buffers[3]);
  for (int64_t i = 0; i < scalars[0]; ++i)
    p[i] -= lr * g[i];
}

/// Half the sum of squares of scalars[0] f32.
void loss(void *const *buffers, const int64_t *scalars) {
  const float *in = static_cast<const float *>(buffers[0]);
  float sum = 0;
  for (int64_t i = 0; i < scalars[0]; ++i)
    sum += in[i] * in[i];
  *static_cast<float *>(buffers[1]) = sum / 2;
}

void increment(void *const *buffers, const int64_t *) {
  *static_cast<int64_t *>(buffers[1]) = *static_cast<int64_t *>(buffers[0]) + 1;
}

/// Fails on the rank whose coordinate is the input's first element.
void failAt(void *const *buffers, const int64_t *scalars) {
  if (*static_cast<const float *>(buffers[0]) == float(scalars[0]))
    tandem_rt_report_error_hook("index 7 out of range, expected less than 4");
}

/// Takes a while, in a way that no compiler removes.
void slow(void *const *buffers, const int64_t *scalars) {
  volatile float *out = static_cast<float *>(buffers[0]);
  for (int64_t i = 0; i < scalars[0]; ++i)
    *out = float(i);
}
}
