//===- kernels.cpp - kernels of the tests ---------------------------------===//
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
#include <cstdlib>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

/// What a kernel is called here (emulated_kernels.cpp).
#ifndef KERNEL
#define KERNEL(name) name
#endif

namespace {
/// What loading these does: makes the file that TANDEM_CTS_LOADED names.
[[gnu::constructor]] void noteLoading() {
  if (const char *path = std::getenv("TANDEM_CTS_LOADED"))
    close(open(path, O_WRONLY | O_CREAT, 0600));
}
} // namespace

extern "C" {
void (*tandem_rt_report_index_hook)(int64_t, int64_t, int64_t) = nullptr;

/// out[i] = in[i] * scalars[1] + scalars[2], over scalars[0] f32.
void KERNEL(affine)(void *const *buffers, const int64_t *scalars) {
  const float *in = static_cast<const float *>(buffers[0]);
  float *out = static_cast<float *>(buffers[1]);
  for (int64_t i = 0; i < scalars[0]; ++i)
    out[i] = in[i] * float(scalars[1]) + float(scalars[2]);
}

/// -1 over scalars[0] f32, or in parts the number of the part.
void number(void *const *buffers, const int64_t *scalars) {
  float *out = static_cast<float *>(buffers[0]);
  for (int64_t i = 0; i < scalars[0]; ++i)
    out[i] = -1;
}
void number_part(void *const *buffers, const int64_t *scalars, int64_t part,
                 int64_t parts) {
  float *out = static_cast<float *>(buffers[0]);
  for (int64_t i = scalars[0] * part / parts;
       i < scalars[0] * (part + 1) / parts; ++i)
    out[i] = float(part);
}

/// -1 over scalars[0] f32; by phases how many parts the first had, once these
/// have counted themselves in the workspace.
void counted(void *const *buffers, const int64_t *scalars) {
  number(buffers, scalars);
}
void counted_phase(void *const *buffers, const int64_t *scalars, int64_t phase,
                   int64_t part, int64_t parts) {
  float *out = static_cast<float *>(buffers[0]);
  float *own = static_cast<float *>(buffers[1]);
  if (phase == 0)
    own[part] = float(parts);
  for (int64_t i = 0; phase == 1 && i < scalars[0]; ++i)
    out[i] = part == 0 && parts == 1 ? own[i] : -2;
}
// Not const, which would have no symbol.
int64_t counted_phases[] = {2, 1};

/// Of the first of scalars[0] CPUs whether the calling thread may run there.
void cpus(void *const *buffers, const int64_t *scalars) {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  sched_getaffinity(0, sizeof usable, &usable);
  float *out = static_cast<float *>(buffers[0]);
  for (int64_t i = 0; i < scalars[0]; ++i)
    out[i] = CPU_ISSET(size_t(i), &usable) ? 1 : 0;
}

/// p -= lr * g, over scalars[0] f32: in place.
void KERNEL(sgd)(void *const *buffers, const int64_t *scalars) {
  const float *g = static_cast<const float *>(buffers[1]);
  float lr = *static_cast<const float *>(buffers[2]);
  float *p = static_cast<float *>(buffers[3]);
  for (int64_t i = 0; i < scalars[0]; ++i)
    p[i] -= lr * g[i];
}

/// Half the sum of squares of scalars[0] f32.
void KERNEL(loss)(void *const *buffers, const int64_t *scalars) {
  const float *in = static_cast<const float *>(buffers[0]);
  float sum = 0;
  for (int64_t i = 0; i < scalars[0]; ++i)
    sum += in[i] * in[i];
  *static_cast<float *>(buffers[1]) = sum / 2;
}

/// out = a + b, over scalars[0] f32.
void KERNEL(add)(void *const *buffers, const int64_t *scalars) {
  const float *a = static_cast<const float *>(buffers[0]);
  const float *b = static_cast<const float *>(buffers[1]);
  float *out = static_cast<float *>(buffers[2]);
  for (int64_t i = 0; i < scalars[0]; ++i)
    out[i] = a[i] + b[i];
}

/// out = (3·a + b + scalars[1]) mod 17 over scalars[0] whole numbers in f32:
/// small whatever comes in, and exact.
void KERNEL(mix)(void *const *buffers, const int64_t *scalars) {
  const float *a = static_cast<const float *>(buffers[0]);
  const float *b = static_cast<const float *>(buffers[1]);
  float *out = static_cast<float *>(buffers[2]);
  for (int64_t i = 0; i < scalars[0]; ++i)
    out[i] = float((3 * int64_t(a[i]) + int64_t(b[i]) + scalars[1]) % 17);
}

/// Turns scalars[0] f32 around by way of the workspace, which comes last.
void KERNEL(reverse)(void *const *buffers, const int64_t *scalars) {
  const float *in = static_cast<const float *>(buffers[0]);
  float *out = static_cast<float *>(buffers[1]);
  float *space = static_cast<float *>(buffers[2]);
  for (int64_t i = 0; i < scalars[0]; ++i)
    space[i] = in[i];
  for (int64_t i = 0; i < scalars[0]; ++i)
    out[i] = space[scalars[0] - 1 - i];
}

/// Whether all buffers lie at multiples of scalars[1]; the last of scalars[0]
/// takes the answer.
void KERNEL(isAligned)(void *const *buffers, const int64_t *scalars) {
  float aligned = 1;
  for (int64_t i = 0; i < scalars[0]; ++i)
    if (reinterpret_cast<uintptr_t>(buffers[i]) % uintptr_t(scalars[1]) != 0)
      aligned = 0;
  *static_cast<float *>(buffers[scalars[0] - 1]) = aligned;
}

void KERNEL(increment)(void *const *buffers, const int64_t *) {
  *static_cast<int64_t *>(buffers[1]) = *static_cast<int64_t *>(buffers[0]) + 1;
}

/// Fails on the rank whose coordinate is the input's first element.
void KERNEL(failAt)(void *const *buffers, const int64_t *scalars) {
  if (*static_cast<const float *>(buffers[0]) == float(scalars[0]))
    tandem_rt_report_index_hook(0, 7, 4);
}

/// Takes a while, in a way that no compiler removes.
/// scalars: whether it goes on for longer than any test.
void KERNEL(stay)(void *const *, const int64_t *scalars) {
  if (scalars[0])
    sleep(1000);
}

void KERNEL(slow)(void *const *buffers, const int64_t *scalars) {
  volatile float *out = static_cast<float *>(buffers[0]);
  for (int64_t i = 0; i < scalars[0]; ++i)
    *out = float(i);
}
}
