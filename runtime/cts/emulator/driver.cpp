//===- driver.cpp - CUDA's driver API of the emulated GPU -----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "emulator.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <fstream>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

using namespace tandem::rt::cuda;
namespace emulated = tandem::rt::cuda::emulated;

/// A shared object of the host (tandem_rt/emulated.h).
struct tandem::rt::cuda::CUmod_st {
  int file = -1;
  void *handle = nullptr;
  std::map<std::string, std::unique_ptr<emulated::Kernel>> kernels;
};

namespace {
CUfunction handleOf(emulated::Kernel *kernel) {
  return reinterpret_cast<CUfunction>(kernel);
}
emulated::Kernel &kernelOf(CUfunction function) {
  return *reinterpret_cast<emulated::Kernel *>(function);
}

/// The bytes of an ELF file in memory, whose section headers come last.
size_t sizeOfImage(const void *image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  return header.e_shoff + size_t(header.e_shentsize) * header.e_shnum;
}

/// Where an address may be of the host, too: results of what NVIDIA's driver
/// says of such a call are not needed.
char *place(CUdeviceptr address, size_t bytes, bool writes, CUresult &result) {
  char *host = emulated::hostOf(address, bytes);
  if (host)
    emulated::touch(address, bytes, writes);
  else
    result = kInvalidValue;
  return host;
}

/// GPUs are told apart by where a context lies.
constexpr size_t kMaxGpus = 64;
char contexts[kMaxGpus];
std::array<std::atomic<int>, kMaxGpus> retained; ///< How often.
thread_local CUcontext presentContext = nullptr;

CUdevice deviceOf(CUcontext context) {
  return CUdevice(reinterpret_cast<char *>(context) - contexts);
}
/// Of calls that are of the thread's context: that it has one that lives.
CUresult checkContext() {
  bool isThere = presentContext && retained[size_t(deviceOf(presentContext))];
  return isThere ? kSuccess : kInvalidContext;
}

/// A copy or a fill that is done when its turn comes.
CUresult later(CUstream stream, const std::string &name, emulated::Task task) {
  if (CUresult none = checkContext(); none != kSuccess)
    return none;
  if (CUresult failure = emulated::getFailure(); failure != kSuccess)
    return failure;
  return emulated::enqueue(stream, std::move(task), name);
}

constexpr uint32_t kMaxThreads = 1024, kMaxShared = 48 * 1024,
                   kMaxSharedAsked = 99 * 1024; // the least from sm_80 on
} // namespace

extern "C" {
TANDEM_EXPORT int tandemEmulatedGpu = 1;
/// For tests, which find them by name.
TANDEM_EXPORT emulated::Order *tandemWatchOrder(bool isOn, int64_t leftOut) {
  return emulated::watchOrder(isOn, leftOut);
}
TANDEM_EXPORT int64_t tandemCountWaits() { return emulated::countWaits(); }

#define TANDEM_DEFINE(symbol, name, parameters)                                \
  TANDEM_EXPORT CUresult symbol parameters;
TANDEM_CUDA_DRIVER(TANDEM_DEFINE)

CUresult cuInit(unsigned) {
  return emulated::setting("TANDEM_EMULATED_GPUS", 1) > 0 ? kSuccess
                                                          : kNoDevice;
}
CUresult cuDriverGetVersion(int *version) {
  *version = int(emulated::setting("TANDEM_EMULATED_DRIVER", kOldestDriver));
  return kSuccess;
}
CUresult cuDeviceGetCount(int *count) {
  *count = int(emulated::setting("TANDEM_EMULATED_GPUS", 1));
  return kSuccess;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return kSuccess;
}
CUresult cuDeviceGetName(char *name, int length, CUdevice) {
  std::strncpy(name, "the emulated GPU", size_t(length));
  return kSuccess;
}
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice) {
  int capability = int(emulated::setting("TANDEM_EMULATED_CAPABILITY", 90));
  *value = attribute == kMajor               ? capability / 10
           : attribute == kMinor             ? capability % 10
           : attribute == kMaxSharedPerBlock ? int(kMaxShared)
           : attribute == kMaxSharedOptIn    ? int(kMaxSharedAsked)
                                             : 0;
  return kSuccess;
}
/// Of the machine and the GPU's number.
CUresult cuDeviceGetUuid_v2(CUuuid *id, CUdevice device) {
  std::string boot(sizeof id->bytes, '0');
  std::ifstream("/proc/sys/kernel/random/boot_id").read(boot.data(), 16);
  std::memcpy(id->bytes, boot.data(), sizeof id->bytes);
  id->bytes[0] = char(id->bytes[0] ^ (device + 1));
  return kSuccess;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  if (device < 0 || size_t(device) >= kMaxGpus)
    return kInvalidValue;
  *context = reinterpret_cast<CUcontext>(&contexts[device]);
  ++retained[size_t(device)];
  return kSuccess;
}
/// Who releases it last ends it.
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  if (--retained[size_t(device)] == 0)
    emulated::releaseAll(device);
  return retained[size_t(device)] < 0 ? kInvalidContext : kSuccess;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  presentContext = context;
  return kSuccess;
}
CUresult cuCtxGetCurrent(CUcontext *context) {
  *context = presentContext;
  return kSuccess;
}
CUresult cuCtxSynchronize() {
  CUresult none = checkContext();
  return none == kSuccess ? emulated::finishAll() : none;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  *least = emulated::kLeastPriority;
  *greatest = emulated::kGreatestPriority;
  return checkContext();
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  static thread_local std::string words;
  switch (error) {
  case kInvalidValue:
    words = "invalid argument";
    break;
  case kOutOfMemory:
    words = "out of memory";
    break;
  case kNoDevice:
    words = "no CUDA-capable device is detected";
    break;
  case kInvalidContext:
    words = "invalid device context";
    break;
  case kInvalidImage:
  case kInvalidPtx:
    words = "the emulated GPU runs code for --arch emulated alone";
    break;
  case kIllegalAddress:
    words = "an illegal memory access was encountered";
    break;
  case kMisalignedAddress:
    words = "misaligned address";
    break;
  case kLaunchFailed:
    words = "unspecified launch failure";
    break;
  case kCaptureUnsupported:
    words = "operation not permitted when stream is capturing";
    break;
  case kCaptureInvalidated:
    words = "operation failed due to a previous error during capture";
    break;
  case kCaptureUnmatched:
    words = "capture was not ended in the same stream as it began";
    break;
  case kCaptureUnjoined:
    words = "capturing stream has unjoined work";
    break;
  case kCaptureIsolation:
    words = "dependency created on uncaptured work in another stream";
    break;
  default:
    words = "error";
  }
  if (error == emulated::getFailure() && !emulated::getFailureText().empty())
    words += ": " + emulated::getFailureText();
  *text = words.c_str();
  return kSuccess;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  emulated::getMemory(*free, *total);
  return kSuccess;
}
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
  if (CUresult none = checkContext(); none != kSuccess)
    return none;
  if (CUresult broken = emulated::breakCapture(); broken != kSuccess)
    return broken;
  return emulated::allocate(*address, bytes);
}
CUresult cuMemFree_v2(CUdeviceptr address) {
  if (CUresult none = checkContext(); none != kSuccess)
    return none;
  emulated::finishAll(); // NVIDIA's waits as well
  return emulated::release(address);
}
CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
  *memory = emulated::pin(bytes);
  return *memory ? kSuccess : kOutOfMemory;
}
CUresult cuMemFreeHost(void *memory) {
  emulated::unpin(memory);
  return kSuccess;
}

/// Not ordered with streams that were made non-blocking.
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  CUresult result = checkContext();
  if (result == kSuccess)
    result = emulated::finish(nullptr);
  if (result != kSuccess)
    return result;
  if (char *host = place(to, bytes, true, result))
    std::memcpy(host, from, bytes);
  emulated::touchByHost(to, bytes, true);
  return result;
}
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  CUresult result = checkContext();
  if (result == kSuccess)
    result = emulated::finish(nullptr);
  if (result != kSuccess)
    return result;
  if (char *host = place(from, bytes, false, result))
    std::memcpy(to, host, bytes);
  emulated::touchByHost(from, bytes, false);
  return result;
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                              CUstream stream) {
  return later(stream, "a copy or fill", [=] {
    CUresult result = kSuccess;
    char *source = place(from, bytes, false, result);
    char *destination = place(to, bytes, true, result);
    if (source && destination)
      std::memmove(destination, source, bytes);
    return result;
  });
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                              CUstream stream) {
  return later(stream, "a copy or fill", [=] {
    CUresult result = kSuccess;
    if (char *destination = place(to, bytes, true, result))
      std::memcpy(destination, from, bytes);
    return result;
  });
}
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes,
                              CUstream stream) {
  return later(stream, "a copy or fill", [=] {
    CUresult result = kSuccess;
    if (char *source = place(from, bytes, false, result))
      std::memcpy(to, source, bytes);
    return result;
  });
}
CUresult cuMemcpy2DAsync_v2(const CudaCopy2D *copy, CUstream stream) {
  const CudaCopy2D op = *copy;
  for (const CudaCopy2D::Side &side : {op.source, op.destination})
    if (side.memoryType != kDeviceMemory || side.x || side.y ||
        side.pitch < op.width || side.pitch > INT32_MAX)
      return kInvalidValue;
  return later(stream, "a copy or fill", [op] {
    CUresult result = kSuccess;
    for (size_t row = 0; row < op.height && op.width; ++row) {
      CUdeviceptr from = op.source.device + row * op.source.pitch;
      CUdeviceptr to = op.destination.device + row * op.destination.pitch;
      char *source = place(from, op.width, false, result);
      char *destination = place(to, op.width, true, result);
      if (source && destination)
        std::memmove(destination, source, op.width);
    }
    return result;
  });
}
CUresult cuPointerGetAttribute(void *value, int attribute,
                               CUdeviceptr address) {
  if (!emulated::hostOf(address, 1))
    return kInvalidValue;
  if (attribute == kMemoryTypeOf)
    std::memcpy(value, &kDeviceMemory, sizeof kDeviceMemory);
  else if (attribute == kDeviceOf)
    *static_cast<int *>(value) = emulated::allocationOf(address).device;
  else
    return kInvalidValue;
  return kSuccess;
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                         CUstream stream) {
  return later(stream, "a copy or fill", [=] {
    CUresult result = kSuccess;
    if (char *host = place(to, count, true, result))
      std::memset(host, value, count);
    return result;
  });
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count,
                          CUstream stream) {
  if (to % sizeof value)
    return kInvalidValue;
  return later(stream, "a copy or fill", [=] {
    CUresult result = kSuccess;
    if (char *host = place(to, count * sizeof value, true, result))
      for (size_t i = 0; i < count; ++i)
        std::memcpy(host + i * sizeof value, &value, sizeof value);
    return result;
  });
}
CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value,
                           size_t width, size_t height, CUstream stream) {
  return later(stream, "a copy or fill", [=] {
    CUresult result = kSuccess;
    size_t bytes = height ? (height - 1) * pitch + width : 0;
    if (char *host = place(to, bytes, true, result))
      for (size_t row = 0; row < height; ++row)
        std::memset(host + row * pitch, value, width);
    return result;
  });
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  if (std::memcmp(image, ELFMAG, SELFMAG) != 0)
    return kInvalidPtx;
  auto made = std::make_unique<CUmod_st>();
  made->file = memfd_create("kernels", MFD_CLOEXEC);
  size_t bytes = sizeOfImage(image), done = 0;
  while (made->file >= 0 && done < bytes) {
    ssize_t count = write(made->file, static_cast<const char *>(image) + done,
                          bytes - done);
    if (count <= 0)
      return kUnknown;
    done += size_t(count);
  }
  // The file stays open: its number is the loader's name for it.
  std::string path = "/proc/self/fd/" + std::to_string(made->file);
  made->handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!made->handle)
    return kInvalidImage;
  *module = made.release();
  return kSuccess;
}
CUresult cuModuleUnload(CUmodule module) {
  emulated::finishAll();
  dlclose(module->handle);
  close(module->file);
  delete module;
  return kSuccess;
}
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module,
                             const char *name) {
  auto &known = module->kernels[name];
  if (!known) {
    auto shape = static_cast<const int32_t *>(
        dlsym(module->handle,
              (std::string(name) + TANDEM_RT_EMULATED_SHAPE).c_str()));
    void *code = dlsym(module->handle, name);
    if (!shape || !code)
      return kNotFound;
    known = std::make_unique<emulated::Kernel>(emulated::Kernel{
        name, reinterpret_cast<tandem_rt_emulated_kernel>(code), shape[0],
        shape[1] != 0});
  }
  *function = handleOf(known.get());
  return kSuccess;
}

CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
  bool fits = value >= 0 && uint32_t(value) <= kMaxSharedAsked;
  if (attribute != kMaxDynamicShared || !fits)
    return kInvalidValue;
  kernelOf(function).maxSharedBytes = uint32_t(value);
  return kSuccess;
}

CUresult cuLaunchKernel(CUfunction function, unsigned gridX, unsigned gridY,
                        unsigned gridZ, unsigned blockX, unsigned blockY,
                        unsigned blockZ, unsigned sharedBytes, CUstream stream,
                        void **parameters, void **extra) {
  const emulated::Kernel &kernel = kernelOf(function);
  bool fits = gridX && gridY && gridZ && blockX && blockY && blockZ &&
              uint64_t(blockX) * blockY * blockZ <= kMaxThreads &&
              gridY < 65536 && gridZ < 65536 &&
              sharedBytes <= kernel.maxSharedBytes;
  bool isOneBuffer = !parameters && extra && extra[0] == kBufferPointer &&
                     extra[2] == kBufferSize && extra[4] == kEnd;
  if (!fits || !isOneBuffer)
    return kInvalidValue;
  emulated::Launch launch{&kernel,
                          {gridX, gridY, gridZ},
                          {blockX, blockY, blockZ},
                          sharedBytes,
                          {}};
  auto *words = static_cast<const uint64_t *>(extra[1]);
  size_t count = *static_cast<const size_t *>(extra[3]) / sizeof *words;
  if (kernel.numParameters >= 0 && size_t(kernel.numParameters) != count)
    return kInvalidValue;
  launch.parameters.assign(words, words + count);
  return later(stream, kernel.name, [launch] { return emulated::run(launch); });
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, emulated::kLeastPriority);
}
CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned, int priority) {
  if (CUresult none = checkContext(); none != kSuccess)
    return none;
  *stream = emulated::createStream(priority);
  return kSuccess;
}
CUresult cuStreamDestroy_v2(CUstream stream) {
  emulated::destroyStream(stream);
  return kSuccess;
}
CUresult cuStreamQuery(CUstream stream) { return emulated::query(stream); }
CUresult cuStreamSynchronize(CUstream stream) {
  return emulated::finish(stream);
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  return emulated::waitForEvent(stream, event);
}
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
  return mode == kCaptureThreadLocal ? emulated::beginCapture(stream)
                                     : kInvalidValue;
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  return emulated::endCapture(stream, graph);
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec *made, CUgraph graph,
                                     unsigned long long flags) {
  if (flags & ~uint64_t(kUseNodePriority))
    return kInvalidValue;
  *made = emulated::instantiate(graph, flags & kUseNodePriority);
  return kSuccess;
}
CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  return emulated::launch(graph, stream);
}
CUresult cuGraphExecDestroy(CUgraphExec graph) {
  emulated::destroy(graph);
  return kSuccess;
}
CUresult cuGraphDestroy(CUgraph graph) {
  emulated::destroy(graph);
  return kSuccess;
}
CUresult cuEventCreate(CUevent *event, unsigned) {
  if (CUresult none = checkContext(); none != kSuccess)
    return none;
  *event = emulated::createEvent();
  return kSuccess;
}
CUresult cuEventDestroy_v2(CUevent event) {
  emulated::destroyEvent(event);
  return kSuccess;
}
CUresult cuEventSynchronize(CUevent event) {
  return emulated::finishEvent(event);
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  return emulated::recordEvent(event, stream);
}
CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent begin,
                               CUevent end) {
  int64_t from = emulated::timeOf(begin), to = emulated::timeOf(end);
  if (!from || !to)
    return kInvalidHandle;
  *milliseconds = float(double(to - from) / 1e6);
  return kSuccess;
}
}

CUdevice emulated::presentDevice() {
  return presentContext ? deviceOf(presentContext) : 0;
}

tandem::rt::cuda::CUuuid emulated::presentId() {
  CUuuid id = {};
  cuDeviceGetUuid_v2(&id, presentDevice());
  return id;
}
