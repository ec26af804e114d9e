//===- callers.h - tensors and streams of the caller ------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The caller, such as PyTorch, has tensors in memory of the same GPU, in the
// same primary context, and streams in which it reads and writes them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_DRIVER_CALLERS_H
#define TANDEM_RT_CUDA_DRIVER_CALLERS_H

#include "cuda/driver/gpu.h"

namespace tandem::rt {
struct Block;
struct DevicePlace;
} // namespace tandem::rt

namespace tandem::rt::cuda {

/// What was put into the caller's streams and comes before all that follows.
/// Thread-safe; each call has the GPU's context present.
class Callers {
public:
  explicit Callers(const Gpu &gpu) : gpu(gpu) {}
  ~Callers();
  Callers(const Callers &) = delete;
  Callers &operator=(const Callers &) = delete;

  /// Something was put into this one.
  Status note(CUstream caller);
  /// What comes into `stream` comes behind all of it. Not while it is captured.
  Status comeBefore(CUstream stream);
  /// The host waits for all of it.
  Status finish();

private:
  struct Noted {
    CUevent event = nullptr;
    bool isPending = false;
  };
  const Gpu &gpu;
  std::mutex mutex;
  std::map<CUstream, Noted> noted;
};

/// Copies a slice that begins at `slice` from or to the caller's tensor, in the
/// caller's stream. Fails where that is in no memory of this GPU.
Status copyBlock(const Gpu &gpu, const Block &block, int64_t width,
                 CUdeviceptr slice, const DevicePlace &whole, bool isFromWhole);

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_DRIVER_CALLERS_H
