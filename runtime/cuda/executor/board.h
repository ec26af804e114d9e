//===- board.h - messages of a step to the host -----------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_EXECUTOR_BOARD_H
#define TANDEM_RT_CUDA_EXECUTOR_BOARD_H

#include "core/verdict.h"
#include "cuda/driver/gpu.h"
#include "tandem_rt/kernel.h"

#include <span>

namespace tandem::rt::cuda {

/// Of each rank the report of an index, whether the step is refused, and the
/// verdict of each check: words that the GPU writes in a step and the host
/// reads once, behind it.
class StatusBoard {
public:
  StatusBoard() = default;
  /// Of so many ranks with so many checks each.
  static Expected<StatusBoard> create(std::shared_ptr<Gpu> gpu, size_t ranks,
                                      size_t checks);

  CUdeviceptr report(size_t rank) const {
    return device.address() + rank * wordsPerRank * sizeof(int64_t);
  }
  CUdeviceptr refused(size_t rank) const {
    return report(rank) + offsetof(tandem_rt_launch_report, refused);
  }
  CUdeviceptr verdict(size_t rank, size_t check) const {
    return report(rank) + sizeof(tandem_rt_launch_report) +
           check * sizeof(int64_t);
  }

  /// In a stream: nothing has happened yet; and what the host finds below.
  Status clear(CUstream stream) const;
  Status fetch(CUstream stream) const;

  const tandem_rt_launch_report &foundReport(size_t rank) const {
    return *reinterpret_cast<const tandem_rt_launch_report *>(
        host.as<int64_t>() + rank * wordsPerRank);
  }
  /// By check.
  std::span<const int64_t> foundVerdicts(size_t rank) const {
    constexpr size_t kReport = sizeof(tandem_rt_launch_report) / 8;
    return {host.as<int64_t>() + rank * wordsPerRank + kReport,
            wordsPerRank - kReport};
  }

private:
  std::shared_ptr<Gpu> gpu;
  size_t wordsPerRank = 0, bytes = 0;
  Memory device;
  PinnedMemory host;
};

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_EXECUTOR_BOARD_H
