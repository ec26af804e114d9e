//===- Device.h - description of a device -----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What depends on the device that a Program is for stands in a description that
// is found by the device's name: the compiler has no number of its own for it.
// The runtime has a device of the same name, which runs the Program. A further
// device is a file beside `Cpu.cpp` and a line in `Device.cpp`.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DEVICE_DEVICE_H
#define TANDEM_DEVICE_DEVICE_H

#include "tandem_rt/program.h"
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// How far operators are put together into one kernel.
struct FusionLimits {
  /// Operators of one kernel.
  size_t maxOperators;
  /// Elements of a row that several operators work on one after the other.
  int64_t maxColumns;
};

/// What generated kernels are made by.
struct KernelLimits {
  /// Bytes of a buffer that lies on a thread's stack.
  int64_t maxStackBytes;
  /// Scalar operators in a body that are worth a store and a load: a larger one
  /// is not computed again where its value is read.
  int maxCheapBody;
  /// Scalar operators, counted once per use, that are computed again at another
  /// index.
  int maxFloatingCost;
  /// The vectors that loops are made for.
  unsigned vectorBits;
};

/// A kind of device. Descriptions live as long as the process, and are equal in
/// all processes: plans and Programs depend on them.
struct Device {
  /// As registered with the runtime, and as `#sched.device<...>` has it.
  std::string_view name;
  /// The queues of a rank in the order of Programs; one computes, one
  /// communicates.
  std::vector<rt::QueueRole> queues;
  /// In the order of Programs. Arena, arguments, results and constants lie in
  /// the first.
  std::vector<rt::MemorySpace> memorySpaces;
  FusionLimits fusion;
  KernelLimits kernels;
  /// Whether products of f32 and bf16 apply GELU and its gradient to what they
  /// write, and keep sums of what they read (`rt::Gemm`).
  bool hasEpilogues = false;

  const rt::MemorySpace &getValueSpace() const { return memorySpaces.front(); }
};

/// The device of a module that names none.
inline constexpr std::string_view kDefaultDevice = "cpu";

/// Null for an unknown name.
const Device *findDevice(std::string_view name);

/// The known names, for diagnostics: `cpu`, or `cpu, other`.
std::string listDevices();

} // namespace tandem

#endif // TANDEM_DEVICE_DEVICE_H
