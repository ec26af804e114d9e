//===- Cpu.cpp - the cores of a host --------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Devices.h"
#include "tandem_rt/simulate.h"

using namespace tandem;

Device tandem::describeCpu() {
  return {
      .name = "cpu",
      // A thread each.
      .queues = {rt::QueueRole::Compute, rt::QueueRole::Communication},
      // What a device holds, and what stands for the host of one.
      .memorySpaces = {{"host", rt::MemoryKind::Host, rt::kHostAlignment},
                       {"pinned", rt::MemoryKind::Pinned, rt::kHostAlignment}},
      // Larger kernels spill registers and take long to compile; buffers of a
      // row stay in a cache.
      .fusion = {.maxOperators = 64, .maxColumns = 1 << 16},
      // AVX-512 where there is, and halves of it elsewhere.
      .kernels = {.maxStackBytes = 1 << 16,
                  .maxCheapBody = 24,
                  .maxFloatingCost = 64,
                  .vectorBits = 512},
  };
}

Device tandem::describeSimulatedCpu() {
  Device device = describeCpu();
  device.name = rt::kSimulatedDevice;
  return device;
}
