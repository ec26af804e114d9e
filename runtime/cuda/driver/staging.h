//===- staging.h - copies by way of pinned memory ---------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_DRIVER_STAGING_H
#define TANDEM_RT_CUDA_DRIVER_STAGING_H

#include "cuda/driver/gpu.h"

#include <array>
#include <mutex>

namespace tandem::rt::cuda {

/// Copies between memory of the host, wherever it lies, and of the GPU, in
/// pieces: while the GPU copies one from or to pinned memory, the host copies
/// the next. Blocks until all is there. Thread-safe; one copy at a time.
class Staging {
public:
  /// Fewer bytes gain nothing.
  static constexpr size_t kLeast = 256 << 10;

  explicit Staging(const Gpu &gpu) : gpu(gpu) {}
  ~Staging();
  Staging(const Staging &) = delete;
  Staging &operator=(const Staging &) = delete;

  Status copyIn(CUdeviceptr to, const char *from, size_t bytes);
  Status copyOut(char *to, CUdeviceptr from, size_t bytes);

private:
  static constexpr size_t kPiece = 4 << 20;
  struct Half {
    char *memory = nullptr;
    CUstream stream = nullptr;
    char *destination = nullptr; ///< Of what is under way to the host.
    size_t bytes = 0;
  };

  Status prepare();
  /// Until the GPU has done the half's last piece.
  Status settle(Half &half);

  const Gpu &gpu;
  std::mutex mutex;
  std::array<Half, 2> halves = {};
};

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_DRIVER_STAGING_H
