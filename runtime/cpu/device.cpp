//===- device.cpp - the CPU as a device -----------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/registry.h"
#include "cpu/executor.h"
#include "cpu/memory.h"

namespace tandem::rt {

namespace {
class CpuDevice final : public Device {
public:
  Expected<std::shared_ptr<Buffer>> allocate(int64_t, const MemorySpace &space,
                                             int64_t bytes) override {
    if (Status status = cpu::checkMemorySpace(space); !status.ok())
      return status;
    Expected<cpu::Memory> memory = cpu::Memory::allocate(bytes);
    if (!memory.ok())
      return memory.status();
    return std::shared_ptr<Buffer>(
        std::make_shared<cpu::HostBuffer>(std::move(*memory)));
  }

  Expected<std::unique_ptr<Executor>>
  createExecutor(const ExecutorContext &context) override {
    return cpu::createExecutor(context);
  }
};
} // namespace

void registerCpu(Registry &registry) {
  registry.devices.add("cpu", {[] { return Status::success(); },
                               [](const Job &) {
                                 return Expected<std::shared_ptr<Device>>(
                                     std::make_shared<CpuDevice>());
                               }});
}

} // namespace tandem::rt
