//===- blas_threads.h - cores that OpenBLAS uses ----------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CPU_BLAS_THREADS_H
#define TANDEM_RT_CPU_BLAS_THREADS_H

namespace tandem::rt::cpu {

/// While it lives, OpenBLAS uses `wanted` cores. OpenBLAS has one number for
/// the process: who wants another one waits until nobody uses the present one.
class BlasThreads {
public:
  explicit BlasThreads(int wanted);
  ~BlasThreads();
  BlasThreads(const BlasThreads &) = delete;
  BlasThreads &operator=(const BlasThreads &) = delete;
};

} // namespace tandem::rt::cpu

#endif // TANDEM_RT_CPU_BLAS_THREADS_H
