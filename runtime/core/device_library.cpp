//===- device_library.cpp - device library, loaded on demand --------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/device_library.h"
#include "core/text.h"
#include "stamp.h"

#include <dlfcn.h>
#include <filesystem>
#include <link.h>

namespace tandem::rt {

namespace {
namespace fs = std::filesystem;

struct Loaded {
  std::once_flag once;
  Status status;
  Factory<Device> factory;
};

/// Of the program or the module that this code is in.
fs::path ownFolder() {
  Dl_info info;
  link_map *object = nullptr;
  void *here = reinterpret_cast<void *>(&ownFolder);
  bool isModule = dladdr1(here, &info, reinterpret_cast<void **>(&object),
                          RTLD_DL_LINKMAP) &&
                  object && *object->l_name;
  std::error_code error;
  fs::path own =
      fs::canonical(isModule ? object->l_name : "/proc/self/exe", error);
  return own.parent_path();
}

Expected<fs::path> findLibrary(const std::string &file) {
  fs::path own = ownFolder();
  std::error_code error;
  for (const fs::path &folder : {own, own / "../lib", own / "../tandem"})
    if (fs::exists(folder / file, error))
      return (folder / file).lexically_normal();
  return errorOf("no ", file, " beside the runtime, expected it in ",
                 own.string(), ", ../lib or ../tandem");
}

Status load(const std::string &file, Factory<Device> &factory) {
  Expected<fs::path> path = findLibrary(file);
  if (!path.ok())
    return path.status();
  void *library = dlopen(path->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *reason = dlerror();
    return errorOf("cannot load ", path->string(), ": ",
                   reason ? reason : "unknown error");
  }
  auto *stamp = static_cast<const char *>(dlsym(library, kDeviceStampSymbol));
  auto *fill = reinterpret_cast<DeviceFactoryFunction *>(
      dlsym(library, kDeviceFactorySymbol));
  if (!stamp || !fill || std::string_view(stamp) != TANDEM_RT_STAMP)
    return errorOf(path->string(), " is of another build than the runtime, "
                                   "expected one built with it");
  fill(&factory);
  return Status::success();
}
} // namespace

Factory<Device> libraryDevice(const std::string &name) {
  auto loaded = std::make_shared<Loaded>();
  auto get = [loaded, file = concat("libtandem-", name, ".so")]() -> Loaded & {
    std::call_once(loaded->once,
                   [&] { loaded->status = load(file, loaded->factory); });
    return *loaded;
  };
  return {[get] {
            Loaded &known = get();
            return known.status.ok() ? known.factory.probe() : known.status;
          },
          [get](const Job &job) { return get().factory.create(job); }};
}

} // namespace tandem::rt
