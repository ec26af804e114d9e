//===- Gpu.h - description of a GPU -----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Code is for a kind of GPU, so each kind is a device of the compiler:
// `cuda.sm_90`. The runtime has one device, `cuda`, for all of them. A GPU that
// is simulated is a device of its own: `sim.sm_90`.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DEVICE_GPU_H
#define TANDEM_DEVICE_GPU_H

#include "tandem/Device/Device.h"

namespace tandem {

struct Gpu {
  /// As registered with the runtime.
  std::string_view runtimeDevice;
  /// What code is made for: `sm_90`, or `emulated`, which is the host that
  /// stands for a GPU in tests.
  std::string_view architecture;
  /// Threads of a block, a power of two.
  int64_t blockThreads;
  /// Blocks of a launch at most, and of one whose blocks each have sums of
  /// their own.
  int64_t maxBlocks, maxPartialBlocks;
  /// Buffers of a launch at most: all its parameters have 4 KiB.
  int64_t maxBuffers;

  bool isEmulated() const { return architecture == "emulated"; }
};

/// Null for a device whose kernels are functions that a thread calls.
const Gpu *findGpu(const Device &device);

/// Whether kernels are compiled. The commands of a simulated device have prices
/// alone.
bool hasCode(const Device &device);

/// Of Programs for a device, what is known before there is one: the runtime's
/// device, and for a GPU the architecture.
rt::Target getTarget(const Device &device);

/// The names of the runtime's devices, each once, in the order of the
/// descriptions: `cpu`, `cuda`, `sim`.
std::vector<std::string_view> getRuntimeDevices();

/// The device's name with an architecture: `cuda` and `sm_90` give
/// `cuda.sm_90`.
std::string nameWithArchitecture(std::string_view device,
                                 std::string_view architecture);

} // namespace tandem

#endif // TANDEM_DEVICE_GPU_H
