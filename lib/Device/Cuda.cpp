//===- Cuda.cpp - NVIDIA GPUs ---------------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Devices.h"
#include "tandem/Device/Gpu.h"
#include "tandem_rt/simulate.h"

namespace tandem {

namespace {
struct Named {
  std::string_view name;
  Gpu gpu;
};

constexpr Gpu makeGpu(std::string_view architecture,
                      std::string_view runtimeDevice = "cuda") {
  return {.runtimeDevice = runtimeDevice,
          .architecture = architecture,
          .blockThreads = 256,
          .maxBlocks = 4096,
          .maxPartialBlocks = 256,
          .maxBuffers = 500};
}

/// PTX for an older one runs on a newer one, which compiles it again.
constexpr Named kGpus[] = {
    {"cuda", makeGpu("sm_80")},
    {"cuda.sm_80", makeGpu("sm_80")},
    {"cuda.sm_90", makeGpu("sm_90")},
    {"cuda.emulated", makeGpu("emulated")},
    {"sim.sm_80", makeGpu("sm_80", rt::kSimulatedDevice)},
    {"sim.sm_90", makeGpu("sm_90", rt::kSimulatedDevice)},
};

Device describe(std::string_view name) {
  return {
      .name = name,
      // A stream each.
      .queues = {rt::QueueRole::Compute, rt::QueueRole::Communication},
      // What the driver promises of each allocation; what it pins of the host.
      .memorySpaces = {{"device", rt::MemoryKind::Device, 256},
                       {"pinned", rt::MemoryKind::Pinned, 256}},
      .fusion = {.maxOperators = 64, .maxColumns = 1 << 16},
      // Threads have no stack of ours, and no vectors.
      .kernels = {.maxStackBytes = 0,
                  .maxCheapBody = 24,
                  .maxFloatingCost = 64,
                  .vectorBits = 0},
      .hasEpilogues = true,
  };
}
} // namespace

std::vector<Device> describeCuda() {
  std::vector<Device> devices;
  for (const Named &named : kGpus)
    devices.push_back(describe(named.name));
  return devices;
}

const Gpu *findGpu(const Device &device) {
  for (const Named &named : kGpus)
    if (named.name == device.name)
      return &named.gpu;
  return nullptr;
}

bool hasCode(const Device &device) {
  return getTarget(device).device != rt::kSimulatedDevice;
}

rt::Target getTarget(const Device &device) {
  rt::Target target;
  const Gpu *gpu = findGpu(device);
  target.device = gpu ? gpu->runtimeDevice : device.name;
  target.cpu = gpu ? gpu->architecture : "";
  return target;
}

std::string nameWithArchitecture(std::string_view device,
                                 std::string_view architecture) {
  return std::string(device) + "." + std::string(architecture);
}

} // namespace tandem
