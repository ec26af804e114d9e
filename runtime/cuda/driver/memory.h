//===- memory.h - buffers of a rank -----------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_DRIVER_MEMORY_H
#define TANDEM_RT_CUDA_DRIVER_MEMORY_H

#include "core/device.h"
#include "cuda/driver/gpu.h"

#include <algorithm>

namespace tandem::rt::cuda {

/// Whether the GPU has memory of the kind that `space` is of, or copies from
/// it.
Status checkMemorySpace(const MemorySpace &space);
/// Of that kind.
Expected<Memory> allocateIn(const MemorySpace &space, std::shared_ptr<Gpu> gpu,
                            int64_t bytes);

/// Memory of a GPU as values see it.
class GpuBuffer final : public Buffer {
public:
  GpuBuffer(std::shared_ptr<Gpu> gpu, Memory memory)
      : gpu(std::move(gpu)), memory(std::move(memory)) {}

  Status copyIn(int64_t offset, const void *source, size_t bytes) override {
    return memory.copyIn(offset, source, bytes);
  }
  Status copyOut(int64_t offset, void *destination,
                 size_t bytes) const override {
    return memory.copyOut(offset, destination, bytes);
  }
  Status copyFrom(const Block &block, int64_t width,
                  const DevicePlace &whole) override {
    return copyBlock(block, width, whole, /*isFromWhole=*/true);
  }
  Status copyTo(const Block &block, int64_t width,
                const DevicePlace &whole) const override {
    return copyBlock(block, width, whole, /*isFromWhole=*/false);
  }
  CUdeviceptr address() const { return memory.address(); }

private:
  Status copyBlock(const Block &block, int64_t width, const DevicePlace &whole,
                   bool isFromWhole) const;

  std::shared_ptr<Gpu> gpu;
  Memory memory;
};

/// Where a reference leads to in each iteration of the Repeat around it.
struct Address {
  CUdeviceptr base = 0;
  int64_t step = 0; ///< Bytes; 0 outside of a Repeat.

  CUdeviceptr at(int64_t iteration) const {
    return base + uint64_t(step * iteration);
  }
};

/// All buffers of one rank: those of values, arenas and constants.
class RankMemory {
public:
  /// Of the rank with number `place` among those of the context.
  static Expected<RankMemory> allocate(const ExecutorContext &context,
                                       size_t place,
                                       const std::shared_ptr<Gpu> &gpu);
  Address address(const BufferRef &ref) const;
  /// The same bytes of a copy of an argument, in an arena of its own, where
  /// they wait until the step is known not to be refused.
  Expected<BufferRef> shadowOf(const BufferRef &argument);

private:
  const Program *program = nullptr;
  std::shared_ptr<Gpu> gpu;
  int64_t rank = 0;
  std::map<uint32_t, uint32_t> shadows; ///< Arenas by argument.
  std::vector<Memory> arenas, constants;
  std::vector<CUdeviceptr> arguments, results;
};

/// Memory that the library uses while it does a product: of one stream, whose
/// products come one after the other. Used once allocate() was called.
class Workspace {
public:
  void need(size_t other) { bytes = std::max(bytes, other); }
  Status allocate(const std::shared_ptr<Gpu> &gpu);
  CUdeviceptr address() const { return memory.address(); }

private:
  size_t bytes = 0;
  Memory memory;
};

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_DRIVER_MEMORY_H
