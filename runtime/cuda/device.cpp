//===- device.cpp - a GPU as a device -------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/nccl/group.h"
#include "core/bootstrap.h"
#include "core/device_library.h"
#include "core/text.h"
#include "cuda/driver/memory.h"
#include "cuda/executor/executor.h"
#include "stamp.h"

#include <cstdlib>

namespace tandem::rt {

namespace {
using cuda::Gpu;

/// All ranks of this process share one GPU, that with the process' number on
/// its host.
class CudaDevice final : public Device {
public:
  explicit CudaDevice(std::shared_ptr<Gpu> gpu) : gpu(std::move(gpu)) {}

  Expected<std::shared_ptr<Buffer>> allocate(int64_t, const MemorySpace &space,
                                             int64_t bytes) override;
  Expected<std::unique_ptr<Executor>>
  createExecutor(const ExecutorContext &context) override {
    return cuda::createExecutor(context, gpu);
  }
  Status check(const Target &target) const override;
  Status checkRoom(int64_t bytes) const override;

private:
  std::shared_ptr<Gpu> gpu;
};

Expected<std::shared_ptr<Buffer>>
CudaDevice::allocate(int64_t, const MemorySpace &space, int64_t bytes) {
  Status status = cuda::checkMemorySpace(space);
  if (!status.ok())
    return status;
  cuda::Present present(*gpu);
  if (!present.ok())
    return present.status();
  Expected<cuda::Memory> memory = cuda::allocateIn(space, gpu, bytes);
  if (!memory.ok())
    return memory.status();
  if (bytes > 0) {
    status = gpu->check(
        gpu->driver.memsetD8Async(memory->address(), 0, size_t(bytes), nullptr),
        "set memory to zero");
    if (status.ok())
      status = gpu->check(gpu->driver.streamSynchronize(nullptr),
                          "set memory to zero");
  }
  if (!status.ok())
    return status;
  return std::shared_ptr<Buffer>(
      std::make_shared<cuda::GpuBuffer>(gpu, std::move(*memory)));
}

Status CudaDevice::check(const Target &target) const {
  bool isForEmulated = target.cpu == "emulated";
  return cuda::checkTarget(
      *gpu, target, isForEmulated ? CodeKind::SharedObject : CodeKind::Ptx);
}

Status CudaDevice::checkRoom(int64_t bytes) const {
  cuda::Present present(*gpu);
  size_t free = 0, total = 0;
  Status status = present.ok()
                      ? gpu->check(gpu->driver.memGetInfo(&free, &total),
                                   "ask for the GPU's memory")
                      : present.status();
  if (!status.ok() || bytes <= int64_t(free))
    return status;
  return errorOf("a step and its values have to allocate ", bytes, " bytes on ",
                 gpu->getName(), ": ", free, " of ", total,
                 " are free, expected more GPUs, plan 'zero', or more parts of "
                 "the batch (accumulate)");
}

constexpr const char *kShareVariable = "TANDEM_SHARE_GPU";

Expected<std::shared_ptr<Device>> createCuda(const Job &job) {
  Expected<Rendezvous> process = rendezvousFromEnvironment();
  if (!process.ok())
    return process.status();
  int64_t ranks = int64_t(job.ranks.size());
  const char *shares = std::getenv(kShareVariable);
  if (ranks > 1 && (!shares || *shares == '0' || !*shares))
    return errorOf("device 'cuda' has ", ranks,
                   " ranks and one GPU in this "
                   "process, expected a process for each (torchrun "
                   "--nproc-per-node=",
                   ranks, "), or ", kShareVariable,
                   "=1, which lets them share it");
  if (process->worldSize > 1)
    if (auto nccl = nccl::load(Gpu::libraryFolder()); !nccl.ok())
      return nccl.status();
  Expected<std::shared_ptr<Gpu>> gpu = Gpu::open(int(process->localRank));
  if (!gpu.ok())
    return gpu.status();
  return std::shared_ptr<Device>(std::make_shared<CudaDevice>(*gpu));
}
} // namespace

} // namespace tandem::rt

extern "C" {
#define TANDEM_EXPORT __attribute__((visibility("default")))
TANDEM_EXPORT extern const char tandemDeviceStamp[] = TANDEM_RT_STAMP;
TANDEM_EXPORT tandem::rt::DeviceFactoryFunction tandemDeviceFactory;

void tandemDeviceFactory(tandem::rt::Factory<tandem::rt::Device> *factory) {
  *factory = {tandem::rt::cuda::probe, tandem::rt::createCuda};
}
}
