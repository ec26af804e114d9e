//===- registry.h - registry of devices and fabrics -------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A backend is a folder with a function `register<Name>(Registry &)`; CMake
// writes the one that calls those of all folders that are built
// (registerBackends). So core names no backend.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_REGISTRY_H
#define TANDEM_RT_CORE_REGISTRY_H

#include "core/device.h"
#include "tandem_rt/store.h"

#include <functional>
#include <map>
#include <mutex>

namespace tandem::rt {

template <typename Product> struct Factory {
  /// Success, or why there can be none here, such as a library that is missing.
  /// Cheap: asked whenever the names are listed.
  std::function<Status()> probe;
  /// For a job whose world size and ranks are known.
  std::function<Expected<std::shared_ptr<Product>>(const Job &)> create;
};

/// Of one kind of product, by name. Thread-safe.
template <typename Product> class Factories {
public:
  explicit Factories(const char *kind) : kind(kind) {}

  void add(const std::string &name, Factory<Product> factory);
  /// Fails for a name that is unknown or unavailable, and says what there is.
  Expected<std::shared_ptr<Product>> create(const std::string &name,
                                            const Job &job) const;

private:
  /// All others, and why those cannot be used that cannot.
  std::string list(const std::string &except) const;

  const char *kind;
  mutable std::mutex mutex;
  std::map<std::string, Factory<Product>> factories;
};

struct Registry {
  Factories<Device> devices{"device"};
  Factories<Fabric> fabrics{"fabric"};

  /// The one of this process, with all backends that were built.
  static Registry &get();
};

/// Written by CMake.
void registerBackends(Registry &registry);

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_REGISTRY_H
