//===- emulated_kernels.cpp - the tests' kernels for the emulated GPU -----===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Those of kernels.cpp, each by one thread. Where a buffer begins is asked for,
// what it holds is not checked.
//
//===----------------------------------------------------------------------===//

#define KERNEL(name) host_##name
#include "kernels.cpp"

#include "tandem_rt/emulated.h"
#include "tandem_rt/kernel.h"

#include <cstddef>
#include <vector>

namespace {
tandem_rt_emulated_thread *present;
uint64_t reportAddress;
int64_t launchNumber;

uint64_t wordOf(const void *parameter) {
  return *static_cast<const uint64_t *>(parameter);
}

void report(int64_t site, int64_t index, int64_t bound) {
  auto *place = static_cast<int64_t *>(
      present->access(present, reportAddress, 8, TANDEM_RT_EMULATED_WRITE));
  if (place[0])
    return;
  place[0] = launchNumber, place[1] = site, place[2] = index, place[3] = bound;
}

bool isRefused() {
  return *static_cast<int64_t *>(present->access(
      present, reportAddress + offsetof(tandem_rt_launch_report, refused), 8,
      TANDEM_RT_EMULATED_READ));
}

/// So many f32.
void touch(tandem_rt_emulated_thread *thread, uint64_t address, int64_t count,
           bool writes) {
  for (int64_t i = 0; i < count; ++i)
    thread->access(thread, address + uint64_t(i) * 4, 4,
                   writes ? TANDEM_RT_EMULATED_WRITE : TANDEM_RT_EMULATED_READ);
}

/// Behind the buffers: so many numbers, the report and the launch. Where that
/// is told, the last `numWritten` buffers are written and the others read, as
/// many f32 as the first number says.
void call(tandem_rt_kernel kernel, size_t numScalars, size_t numWritten,
          tandem_rt_emulated_thread *thread, void *const *parameters) {
  size_t count = 0;
  while (parameters[count]) // a null ends them
    ++count;
  size_t numBuffers = count - numScalars - 2;
  std::vector<void *> buffers;
  for (size_t i = 0; i < numBuffers; ++i)
    buffers.push_back(thread->access(thread, wordOf(parameters[i]), 1,
                                     TANDEM_RT_EMULATED_READ));
  std::vector<int64_t> scalars;
  for (size_t i = numBuffers; i < count - 2; ++i)
    scalars.push_back(int64_t(wordOf(parameters[i])));
  present = thread;
  reportAddress = wordOf(parameters[count - 2]);
  launchNumber = int64_t(wordOf(parameters[count - 1]));
  if (launchNumber < 0 && isRefused())
    return;
  for (size_t i = 0; i < numBuffers && numWritten; ++i)
    touch(thread, wordOf(parameters[i]), scalars[0],
          i + numWritten >= numBuffers);
  tandem_rt_report_index_hook = report;
  kernel(buffers.data(), scalars.data());
}
} // namespace

#define EMULATED(name, numScalars, numWritten)                                 \
  extern "C" {                                                                 \
  extern const int32_t name##_shape[2];                                        \
  const int32_t name##_shape[2] = {-1, 0};                                     \
  void name(tandem_rt_emulated_thread *thread, void *const *parameters) {      \
    call(host_##name, numScalars, numWritten, thread, parameters);             \
  }                                                                            \
  }
EMULATED(affine, 3, 0)
EMULATED(sgd, 1, 0)
EMULATED(loss, 1, 0)
EMULATED(add, 1, 0)
EMULATED(mix, 2, 1)
EMULATED(reverse, 1, 2)
EMULATED(isAligned, 2, 0)
EMULATED(increment, 0, 0)
EMULATED(failAt, 1, 0)
EMULATED(stay, 1, 0)
EMULATED(slow, 1, 0)

//===----------------------------------------------------------------------===//
// With barriers, for the tests of the emulated GPU
//===----------------------------------------------------------------------===//

namespace {
using Thread = tandem_rt_emulated_thread;

int64_t &sharedAt(Thread *thread, uint64_t index, int32_t kind) {
  return *static_cast<int64_t *>(
      thread->access(thread, TANDEM_RT_EMULATED_SHARED + index * 8, 8,
                     kind + TANDEM_RT_EMULATED_OF_SHARED));
}

/// out[i] = n - 1 - i, of a block of n threads, by way of shared memory.
void turn(Thread *thread, void *const *parameters, bool waits) {
  uint64_t i = thread->thread[0], n = thread->block_size[0];
  sharedAt(thread, i, TANDEM_RT_EMULATED_WRITE) = int64_t(i);
  if (waits)
    thread->barrier(thread);
  int64_t value = sharedAt(thread, n - 1 - i, TANDEM_RT_EMULATED_READ);
  *static_cast<int64_t *>(thread->access(thread, wordOf(parameters[0]) + i * 8,
                                         8, TANDEM_RT_EMULATED_WRITE)) = value;
}
} // namespace

/// Reads far beyond its first buffer.
extern "C" {
extern const int32_t stray_shape[2];
const int32_t stray_shape[2] = {-1, 0};
void stray(tandem_rt_emulated_thread *thread, void *const *parameters) {
  thread->access(thread, wordOf(parameters[0]) + (1 << 20), 8,
                 TANDEM_RT_EMULATED_READ);
}
}

extern "C" {
extern const int32_t turnAround_shape[2], turnWithoutBarrier_shape[2],
    waitAlone_shape[2];
const int32_t turnAround_shape[2] = {1, 1};
void turnAround(Thread *thread, void *const *parameters) {
  turn(thread, parameters, true);
}
const int32_t turnWithoutBarrier_shape[2] = {1, 1};
void turnWithoutBarrier(Thread *thread, void *const *parameters) {
  turn(thread, parameters, false);
}
const int32_t waitAlone_shape[2] = {1, 1};
void waitAlone(Thread *thread, void *const *) {
  if (thread->thread[0] == 0)
    thread->barrier(thread);
}
}
