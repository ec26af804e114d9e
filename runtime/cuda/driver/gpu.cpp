//===- gpu.cpp - one GPU of this process ----------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/driver/gpu.h"
#include "core/text.h"
#include "cuda/driver/callers.h"
#include "cuda/driver/staging.h"

#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <iterator>
#include <sys/resource.h>
#include <utility>

/// Written by CMake: PTX of kernels/, each with a zero behind it; none where no
/// compiler for NVPTX was there.
extern "C" const char tandemPtxBegin[], tandemPtxEnd[];

namespace tandem::rt::cuda {

namespace {
constexpr const char *kFolderVariable = "TANDEM_CUDA_LIBRARIES";
/// Of the emulated GPU: the same kernels, beside its libraries.
constexpr const char *kEmulatedKernels = "libtandem_cuda_kernels.so";

std::string folder() {
  const char *named = std::getenv(kFolderVariable);
  return named ? named : "";
}

Expected<void *> loadLibrary(const std::string &name) {
  std::string path = folder().empty() ? name : concat(folder(), "/", name);
  if (void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))
    return handle;
  const char *reason = dlerror();
  return errorOf("cannot load ", name, ": ", reason ? reason : "unknown error");
}

struct LoadedDriver {
  Driver driver = {};
  bool isEmulated = false;
  Status status;
};

LoadedDriver loadDriver() {
  LoadedDriver loaded;
  Expected<void *> library = loadLibrary("libcuda.so.1");
  if (!library.ok()) {
    loaded.status =
        errorOf(library.status().message(),
                ", expected NVIDIA's driver, of CUDA 13.0 or later");
    return loaded;
  }
  std::string missing;
  auto find = [&](const char *name, auto &function) {
    void *symbol = dlsym(*library, name);
    if (!symbol && missing.empty())
      missing = name;
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
  // The version first: an older driver lacks others.
  find("cuInit", loaded.driver.init);
  find("cuDriverGetVersion", loaded.driver.driverGetVersion);
  int version = 0;
  if (missing.empty() && loaded.driver.driverGetVersion(&version) == kSuccess &&
      version < kOldestDriver) {
    loaded.status = errorOf("the driver is of CUDA ", version / 1000, ".",
                            version % 1000 / 10, ", expected 13.0 or later");
    return loaded;
  }
#define TANDEM_FIND(symbol, name, parameters) find(#symbol, loaded.driver.name);
  TANDEM_CUDA_DRIVER(TANDEM_FIND)
  loaded.isEmulated = dlsym(*library, TANDEM_CUDA_EMULATED) != nullptr;
  if (!missing.empty())
    loaded.status = errorOf("libcuda.so.1 has no ", missing);
  return loaded;
}

const LoadedDriver &driverOfProcess() {
  static const LoadedDriver loaded = loadDriver();
  return loaded;
}

struct LoadedCublas {
  CublasLt functions = {};
  Status status;
};

const LoadedCublas &cublasOfProcess() {
  static const LoadedCublas loaded = [] {
    LoadedCublas made;
    Expected<void *> library = loadLibrary("libcublasLt.so.13");
    made.status = library.status();
    if (!library.ok())
      return made;
#define TANDEM_FIND_CUBLAS(symbol, name, parameters)                           \
  made.functions.name = reinterpret_cast<decltype(made.functions.name)>(       \
      dlsym(*library, #symbol));                                               \
  if (!made.functions.name && made.status.ok())                                \
    made.status = errorOf("libcublasLt.so.13 has no ", #symbol);
    TANDEM_CUBLASLT(TANDEM_FIND_CUBLAS)
    return made;
  }();
  return loaded;
}

Status checkWith(const Driver &driver, CUresult result, std::string_view what) {
  if (result == kSuccess)
    return Status::success();
  const char *text = nullptr;
  if (driver.getErrorString(result, &text) != kSuccess || !text)
    text = "unknown error";
  return errorOf("cannot ", what, ": ", text, " (CUDA error ", result, ")");
}

Expected<int> countGpus() {
  const LoadedDriver &loaded = driverOfProcess();
  if (!loaded.status.ok())
    return loaded.status;
  int count = 0;
  CUresult result = loaded.driver.init(0);
  if (result == kSuccess)
    result = loaded.driver.deviceGetCount(&count);
  if (result == kNoDevice || (result == kSuccess && count == 0))
    return errorOf("the driver finds no GPU, expected one "
                   "(CUDA_VISIBLE_DEVICES may hide it)");
  if (Status status = checkWith(loaded.driver, result, "start the driver");
      !status.ok())
    return status;
  return count;
}
} // namespace

bool allowsTf32() {
  static const bool allowed = [] {
    const char *text = std::getenv("TANDEM_TF32");
    return text && text == std::string_view("1");
  }();
  return allowed;
}

Status probe() { return countGpus().status(); }

std::string Gpu::libraryFolder() { return folder(); }

Status Gpu::check(CUresult result, std::string_view what) const {
  return checkWith(driver, result, what);
}

Present::Present(const Gpu &gpu) : gpu(gpu) {
  entered = gpu.check(gpu.driver.contextGetCurrent(&before), "use the GPU");
  if (entered.ok() && before != gpu.context)
    entered =
        gpu.check(gpu.driver.contextSetCurrent(gpu.context), "use the GPU");
}

Present::~Present() {
  if (before != gpu.context)
    gpu.driver.contextSetCurrent(before);
}

Expected<std::shared_ptr<Gpu>> Gpu::open(int number) {
  Expected<int> count = countGpus();
  if (!count.ok())
    return count.status();
  if (number >= *count)
    return errorOf("process ", number,
                   " of this host has no GPU of its own, "
                   "found ",
                   *count);
  const LoadedDriver &loaded = driverOfProcess();
  CUdevice device = 0;
  if (Status status =
          checkWith(loaded.driver, loaded.driver.deviceGet(&device, number),
                    "find the GPU");
      !status.ok())
    return status;
  std::shared_ptr<Gpu> gpu(new Gpu(loaded.driver, device));
  gpu->emulated = loaded.isEmulated;
  if (Status status = gpu->prepare(); !status.ok())
    return status;
  return gpu;
}

Gpu::Gpu(const Driver &driver, CUdevice device)
    : driver(driver), device(device), staging(std::make_unique<Staging>(*this)),
      callers(std::make_unique<Callers>(*this)) {}

Status Gpu::prepare() {
  int major = 0, minor = 0;
  Status status = check(driver.deviceGetAttribute(&major, kMajor, device),
                        "ask for the GPU's capability");
  if (status.ok())
    status = check(driver.deviceGetAttribute(&minor, kMinor, device),
                   "ask for the GPU's capability");
  capability = major * 10 + minor;
  char text[256] = {};
  if (status.ok())
    status = check(driver.deviceGetName(text, sizeof text - 1, device),
                   "ask for the GPU's name");
  name = text;
  if (status.ok())
    status =
        check(driver.deviceGetUuid(&id, device), "ask for the GPU's number");
  if (status.ok())
    status =
        check(driver.primaryContextRetain(&context, device), "make a context");
  return status;
}

Gpu::~Gpu() {
  if (!context)
    return;
  if (Present present(*this); present.ok()) {
    callers = nullptr;
    staging = nullptr;
    if (cublasHandle)
      cublasOfProcess().functions.destroy(cublasHandle);
    for (const OwnKernels &own : ownKernels)
      if (own.module)
        driver.moduleUnload(own.module);
  }
  driver.primaryContextRelease(device);
}

Expected<const CublasLt *> Gpu::getCublasLt() {
  const LoadedCublas &loaded = cublasOfProcess();
  if (!loaded.status.ok())
    return loaded.status;
  std::lock_guard lock(mutex);
  if (!cublasHandle)
    if (CublasStatus result = loaded.functions.create(&cublasHandle);
        result != kCublasSuccess)
      return errorOf("cannot start cuBLASLt: status ", result);
  return &loaded.functions;
}

namespace {
/// Of the runtime's own kernels.
Expected<std::vector<std::string>> kernelImages(bool isEmulated) {
  std::vector<std::string> images;
  if (!isEmulated) {
    for (const char *text = tandemPtxBegin; text != tandemPtxEnd;
         text += images.back().size() + 1)
      images.emplace_back(text);
    if (images.empty())
      return errorOf("the runtime was built without a compiler for NVPTX, "
                     "expected clang 22 or CUDA's nvcc when it is built");
    return images;
  }
  std::string path = concat(folder(), "/", kEmulatedKernels);
  std::ifstream file(path, std::ios::binary);
  images.emplace_back(std::istreambuf_iterator<char>(file),
                      std::istreambuf_iterator<char>());
  if (!file || images.back().empty())
    return errorOf("cannot read ", path);
  return images;
}

/// Behind its name PTX has a parenthesis, and the emulated GPU's library a
/// zero.
bool hasKernel(const std::string &image, const std::string &symbol) {
  return image.find(symbol + '(') != std::string::npos ||
         image.find(symbol + '\0') != std::string::npos;
}
} // namespace

Expected<CUfunction> Gpu::getKernel(const std::string &symbol) {
  std::lock_guard lock(mutex);
  if (auto known = kernels.find(symbol); known != kernels.end())
    return known->second;
  if (ownKernels.empty()) {
    Expected<std::vector<std::string>> images = kernelImages(emulated);
    if (!images.ok())
      return images.status();
    for (std::string &image : *images)
      ownKernels.push_back({std::move(image), nullptr});
  }
  for (OwnKernels &own : ownKernels) {
    if (!hasKernel(own.image, symbol))
      continue;
    if (!own.module)
      if (Status status =
              check(driver.moduleLoadData(&own.module, own.image.data()),
                    "load the runtime's kernels");
          !status.ok())
        return status;
    CUfunction function = nullptr;
    if (Status status = check(
            driver.moduleGetFunction(&function, own.module, symbol.c_str()),
            concat("find the kernel '", symbol, "'"));
        !status.ok())
      return status;
    return kernels[symbol] = function;
  }
  return errorOf("the runtime has no kernel '", symbol, "'");
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Expected<Memory> Memory::allocate(std::shared_ptr<Gpu> gpu, int64_t bytes) {
  Memory memory;
  // Even an empty buffer has an address.
  size_t needed = size_t(std::max<int64_t>(bytes, 1));
  CUresult result = gpu->driver.memAlloc(&memory.start, needed);
  if (result == kOutOfMemory) {
    size_t free = 0, total = 0;
    gpu->driver.memGetInfo(&free, &total);
    return errorOf("cannot allocate ", bytes, " bytes on ", gpu->getName(),
                   ": ", free, " of ", total, " are free");
  }
  if (Status status = gpu->check(result, concat("allocate ", bytes, " bytes"));
      !status.ok())
    return status;
  memory.gpu = std::move(gpu);
  return memory;
}

/// What the system lets a process pin, and how to raise it.
static std::string describePinLimit() {
  rlimit limit = {};
  bool isLimited =
      getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return concat("the limit of locked memory is ",
                isLimited ? concat(limit.rlim_cur, " bytes")
                          : std::string("none"),
                ", expected more memory of the host, a higher limit (ulimit "
                "-l, LimitMEMLOCK=, --ulimit memlock=-1), or less on the host");
}

/// With unified addresses, which all GPUs with 64 bits have, the GPU copies
/// from and to the host's own address.
Expected<Memory> Memory::pin(std::shared_ptr<Gpu> gpu, int64_t bytes) {
  Memory memory;
  void *start = nullptr;
  size_t needed = size_t(std::max<int64_t>(bytes, 1));
  CUresult result = gpu->driver.memHostAlloc(&start, needed, 0);
  if (Status status =
          gpu->check(result, concat("pin ", bytes, " bytes of the host"));
      !status.ok())
    return errorOf(status.message(), ": ", describePinLimit());
  memory.start = CUdeviceptr(reinterpret_cast<uintptr_t>(start));
  memory.isPinned = true;
  memory.gpu = std::move(gpu);
  return memory;
}

Memory::Memory(Memory &&other) noexcept
    : gpu(std::move(other.gpu)), start(std::exchange(other.start, 0)),
      isPinned(other.isPinned) {}

Memory &Memory::operator=(Memory &&other) noexcept {
  std::swap(gpu, other.gpu);
  std::swap(start, other.start);
  std::swap(isPinned, other.isPinned);
  return *this;
}

Memory::~Memory() {
  if (!gpu || !start)
    return;
  Present present(*gpu);
  if (!present.ok())
    return;
  if (isPinned)
    gpu->driver.memFreeHost(reinterpret_cast<void *>(uintptr_t(start)));
  else
    gpu->driver.memFree(start);
}

Status Memory::copyIn(int64_t offset, const void *source, size_t bytes) const {
  if (!bytes)
    return Status::success();
  Present present(*gpu);
  Status status = present.ok() ? gpu->getCallers().finish() : present.status();
  if (!status.ok())
    return status;
  if (bytes >= Staging::kLeast)
    return gpu->getStaging().copyIn(start + uint64_t(offset),
                                    static_cast<const char *>(source), bytes);
  return gpu->check(
      gpu->driver.memcpyHtoD(start + uint64_t(offset), source, bytes),
      "copy to the GPU");
}

Status Memory::copyOut(int64_t offset, void *destination, size_t bytes) const {
  if (!bytes)
    return Status::success();
  Present present(*gpu);
  Status status = present.ok() ? gpu->getCallers().finish() : present.status();
  if (!status.ok())
    return status;
  if (bytes >= Staging::kLeast)
    return gpu->getStaging().copyOut(static_cast<char *>(destination),
                                     start + uint64_t(offset), bytes);
  return gpu->check(
      gpu->driver.memcpyDtoH(destination, start + uint64_t(offset), bytes),
      "copy from the GPU");
}

Expected<PinnedMemory> PinnedMemory::allocate(std::shared_ptr<Gpu> gpu,
                                              size_t bytes) {
  PinnedMemory memory;
  Status status = gpu->check(gpu->driver.memHostAlloc(&memory.start, bytes, 0),
                             concat("pin ", bytes, " bytes of the host"));
  if (!status.ok())
    return status;
  memory.gpu = std::move(gpu);
  return memory;
}
PinnedMemory::PinnedMemory(PinnedMemory &&other) noexcept
    : gpu(std::move(other.gpu)), start(std::exchange(other.start, nullptr)) {}
PinnedMemory &PinnedMemory::operator=(PinnedMemory &&other) noexcept {
  std::swap(gpu, other.gpu);
  std::swap(start, other.start);
  return *this;
}
PinnedMemory::~PinnedMemory() {
  if (!gpu || !start)
    return;
  if (Present present(*gpu); present.ok())
    gpu->driver.memFreeHost(start);
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

Status checkTarget(const Gpu &gpu, const Target &target, CodeKind kind) {
  int needed = 0, present = gpu.getCapability();
  if (target.cpu.starts_with("sm_"))
    needed = std::atoi(target.cpu.c_str() + 3);
  if (needed > present || (kind == CodeKind::Cubin && needed != present))
    return errorOf("program is for ", target.cpu, ", but ", gpu.getName(),
                   " is sm_", present, ", expected one that was compiled for ",
                   "sm_", present, " or older (--arch, architecture=)");
  bool isForEmulated = kind == CodeKind::SharedObject;
  if (isForEmulated == gpu.isEmulated())
    return Status::success();
  return errorOf("program is for ",
                 isForEmulated ? "the emulated GPU" : target.cpu, ", expected ",
                 gpu.isEmulated() ? std::string("the emulated GPU")
                                  : concat("sm_", present, " or older"),
                 ", which is here");
}

Expected<std::unique_ptr<Code>> Code::load(std::shared_ptr<Gpu> gpu,
                                           const CodeObject &object,
                                           const Target &target) {
  if (Status status = checkTarget(*gpu, target, object.kind); !status.ok())
    return status;
  // PTX is a text, which ends by a zero.
  std::string image(object.image.begin(), object.image.end());
  CUmodule module = nullptr;
  if (Status status =
          gpu->check(gpu->driver.moduleLoadData(&module, image.data()),
                     concat("load code object '", object.name, "'"));
      !status.ok())
    return status;
  return std::unique_ptr<Code>(new Code(std::move(gpu), object.name, module));
}

Code::~Code() {
  if (Present present(*gpu); present.ok())
    gpu->driver.moduleUnload(module);
}

Expected<CUfunction> Code::find(const std::string &symbol) const {
  CUfunction function = nullptr;
  CUresult result =
      gpu->driver.moduleGetFunction(&function, module, symbol.c_str());
  if (result == kNotFound)
    return errorOf("code object '", name, "' has no symbol '", symbol, "'");
  if (Status status =
          gpu->check(result, concat("find the kernel '", symbol, "'"));
      !status.ok())
    return status;
  return function;
}

} // namespace tandem::rt::cuda
