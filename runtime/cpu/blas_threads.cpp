//===- blas_threads.cpp - cores that OpenBLAS uses ------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cpu/blas_threads.h"

#include <cblas.h>
#include <condition_variable>
#include <mutex>

namespace tandem::rt::cpu {

namespace {
std::mutex mutex;
std::condition_variable unused;
int users = 0;
} // namespace

BlasThreads::BlasThreads(int wanted) {
  std::unique_lock lock(mutex);
  unused.wait(
      lock, [&] { return users == 0 || openblas_get_num_threads() == wanted; });
  if (openblas_get_num_threads() != wanted)
    openblas_set_num_threads(wanted);
  ++users;
}

BlasThreads::~BlasThreads() {
  std::lock_guard lock(mutex);
  if (--users == 0)
    unused.notify_all();
}

} // namespace tandem::rt::cpu
