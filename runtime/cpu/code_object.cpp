//===- code_object.cpp - loads generated kernels --------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cpu/code_object.h"
#include "core/text.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace tandem::rt::cpu {

namespace {
thread_local std::optional<BadIndex> badIndex;

void reportIndex(int64_t site, int64_t index, int64_t bound) {
  if (!badIndex) // the first one is the cause
    badIndex = BadIndex{site, index, bound};
}
} // namespace

void clearBadIndex() { badIndex.reset(); }
void setBadIndex(const BadIndex &index) { badIndex = index; }
std::optional<BadIndex> getBadIndex() { return badIndex; }

namespace {
Status writeAll(int file, const Bytes &bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t count = write(file, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return errorOf("cannot write: ", std::strerror(errno));
    done += size_t(count);
  }
  return Status::success();
}

/// Hands out a file in memory, or, where there is none, a deleted one.
int createFile(const std::string &name) {
  int file = memfd_create(name.c_str(), MFD_CLOEXEC);
  if (file >= 0)
    return file;
  char path[] = "/tmp/tandem-XXXXXX";
  file = mkstemp(path);
  if (file >= 0)
    unlink(path);
  return file;
}

void setIndexHook(void *handle) {
  if (void *hook = dlsym(handle, TANDEM_RT_INDEX_HOOK))
    *static_cast<tandem_rt_index_hook *>(hook) = reportIndex;
}
} // namespace

Expected<std::unique_ptr<LoadedCode>>
LoadedCode::load(const CodeObject &object) {
  if (object.kind != CodeKind::SharedObject)
    return errorOf("code object '", object.name, "' is a ",
                   codeKindName(object.kind),
                   ", expected a shared object, which the CPU runs");
  int file = createFile(object.name);
  if (file < 0)
    return errorOf("code object '", object.name,
                   "': cannot make a file: ", std::strerror(errno));
  if (Status status = writeAll(file, object.image); !status.ok()) {
    close(file);
    return errorOf("code object '", object.name, "': ", status.message());
  }
  std::string path = concat("/proc/self/fd/", file);
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    close(file);
    return errorOf("code object '", object.name,
                   "' does not load: ", reason ? reason : "unknown error");
  }
  setIndexHook(handle);
  // The file stays open: were its number used again, the loader would take the
  // next object of this name for this one.
  return std::unique_ptr<LoadedCode>(new LoadedCode(object.name, file, handle));
}

LoadedCode::~LoadedCode() {
  dlclose(handle);
  close(file);
}

Expected<tandem_rt_kernel> LoadedCode::find(const std::string &symbol) const {
  void *address = dlsym(handle, symbol.c_str());
  if (!address)
    return errorOf("code object '", name, "' has no symbol '", symbol, "'");
  return reinterpret_cast<tandem_rt_kernel>(address);
}

std::optional<SharedKernel>
LoadedCode::findShared(const std::string &symbol) const {
  auto find = [&](const char *suffix) {
    return dlsym(handle, (symbol + suffix).c_str());
  };
  SharedKernel kernel;
  kernel.part =
      reinterpret_cast<tandem_rt_kernel_part>(find(TANDEM_RT_PART_SUFFIX));
  if (kernel.part)
    return kernel;
  const void *phases = find(TANDEM_RT_PHASES_SUFFIX);
  kernel.phase =
      reinterpret_cast<tandem_rt_kernel_phase>(find(TANDEM_RT_PHASE_SUFFIX));
  if (!phases || !kernel.phase)
    return std::nullopt;
  kernel.phases = *static_cast<const tandem_rt_kernel_phases *>(phases);
  return kernel;
}

} // namespace tandem::rt::cpu
