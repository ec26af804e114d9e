//===- gpu.h - one GPU of this process --------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Libraries are loaded when they are first asked for: from the folder that
// TANDEM_CUDA_LIBRARIES names if it is set, and then from nowhere else, else as
// the loader finds them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_DRIVER_GPU_H
#define TANDEM_RT_CUDA_DRIVER_GPU_H

#include "cuda/driver/api.h"
#include "tandem_rt/program.h"

#include <map>
#include <memory>
#include <mutex>

namespace tandem::rt::cuda {

/// Whether products of f32 may be done with 10 bits of each factor, as
/// TANDEM_TF32=1 says.
bool allowsTf32();

/// Whether there is a driver, new enough, with a GPU.
Status probe();

/// Tells GPUs apart, also those of several hosts.
using GpuId = CUuuid;

/// A GPU with its primary context, which it shares with whoever has retained it
/// too, such as PyTorch. Everything else refers to it, and goes first. Threads
/// may share it.
class Gpu : public std::enable_shared_from_this<Gpu> {
public:
  /// The GPU with a number.
  static Expected<std::shared_ptr<Gpu>> open(int number);
  ~Gpu();
  Gpu(const Gpu &) = delete;
  Gpu &operator=(const Gpu &) = delete;

  const Driver &driver;
  /// Success, or "cannot WHAT: the driver's words".
  Status check(CUresult result, std::string_view what) const;
  /// Of those that the driver knows.
  int getNumber() const { return device; }

  /// Where libraries are taken from; empty: as the loader finds them.
  static std::string libraryFolder();

  bool isEmulated() const { return emulated; }
  const std::string &getName() const { return name; }
  /// 90 of sm_90.
  int getCapability() const { return capability; }
  const GpuId &getId() const { return id; }

  /// Between the host and the GPU, for what is large.
  class Staging &getStaging() { return *staging; }
  /// Whose streams are waited for.
  class Callers &getCallers() { return *callers; }

  /// Loaded by the first who needs it.
  Expected<const CublasLt *> getCublasLt();
  CublasLtHandle getCublasHandle() const { return cublasHandle; }
  /// A kernel of the runtime's own (kernels/).
  Expected<CUfunction> getKernel(const std::string &symbol);

private:
  friend class Present;
  Gpu(const Driver &driver, CUdevice device);
  Status prepare();

  CUdevice device;
  CUcontext context = nullptr;
  bool emulated = false;
  int capability = 0;
  GpuId id = {};
  std::string name;
  std::mutex mutex;
  CublasLtHandle cublasHandle = nullptr;
  /// Of the runtime, which the driver compiles for this GPU when it is asked
  /// for the first of them.
  struct OwnKernels {
    std::string image;
    CUmodule module;
  };
  std::vector<OwnKernels> ownKernels;
  std::unique_ptr<class Staging> staging;
  std::unique_ptr<class Callers> callers;
  std::map<std::string, CUfunction> kernels;
};

/// Makes the GPU's context that of the calling thread, for as long as it lives:
/// what the thread had before it has afterwards.
class Present {
public:
  explicit Present(const Gpu &gpu);
  ~Present();
  Present(const Present &) = delete;
  Present &operator=(const Present &) = delete;

  const Status &status() const { return entered; }
  bool ok() const { return entered.ok(); }

private:
  const Gpu &gpu;
  CUcontext before = nullptr;
  Status entered;
};

/// Memory of the GPU, or pinned memory of the host at the GPU's address, freed
/// with this. Not set to anything.
class Memory {
public:
  static Expected<Memory> allocate(std::shared_ptr<Gpu> gpu, int64_t bytes);
  static Expected<Memory> pin(std::shared_ptr<Gpu> gpu, int64_t bytes);
  Memory() = default;
  Memory(Memory &&other) noexcept;
  Memory &operator=(Memory &&other) noexcept;
  ~Memory();

  CUdeviceptr address() const { return start; }
  Status copyIn(int64_t offset, const void *source, size_t bytes) const;
  Status copyOut(int64_t offset, void *destination, size_t bytes) const;

private:
  std::shared_ptr<Gpu> gpu;
  CUdeviceptr start = 0;
  bool isPinned = false;
};

/// Memory of the host from which and to which the GPU copies by itself.
class PinnedMemory {
public:
  static Expected<PinnedMemory> allocate(std::shared_ptr<Gpu> gpu,
                                         size_t bytes);
  PinnedMemory() = default;
  PinnedMemory(PinnedMemory &&other) noexcept;
  PinnedMemory &operator=(PinnedMemory &&other) noexcept;
  ~PinnedMemory();

  template <typename T> T *as() const { return static_cast<T *>(start); }

private:
  std::shared_ptr<Gpu> gpu;
  void *start = nullptr;
};

/// Whether code of this kind is for such a GPU, or, as PTX, for an older one.
Status checkTarget(const Gpu &gpu, const Target &target, CodeKind kind);

/// A module of kernels.
class Code {
public:
  static Expected<std::unique_ptr<Code>> load(std::shared_ptr<Gpu> gpu,
                                              const CodeObject &object,
                                              const Target &target);
  ~Code();
  Code(const Code &) = delete;
  Code &operator=(const Code &) = delete;

  Expected<CUfunction> find(const std::string &symbol) const;

private:
  Code(std::shared_ptr<Gpu> gpu, std::string name, CUmodule module)
      : gpu(std::move(gpu)), name(std::move(name)), module(module) {}

  std::shared_ptr<Gpu> gpu;
  std::string name;
  CUmodule module;
};

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_DRIVER_GPU_H
