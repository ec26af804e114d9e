//===- registry.cpp - registry of devices and fabrics ---------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/registry.h"
#include "core/text.h"

namespace tandem::rt {

template <typename Product>
void Factories<Product>::add(const std::string &name,
                             Factory<Product> factory) {
  std::lock_guard lock(mutex);
  factories[name] = std::move(factory);
}

template <typename Product>
std::string Factories<Product>::list(const std::string &except) const {
  std::lock_guard lock(mutex);
  std::string text;
  for (const auto &[name, factory] : factories) {
    if (name == except)
      continue;
    Status status = factory.probe();
    text += concat(text.empty() ? "'" : ", '", name, "'",
                   status.ok() ? "" : " (not here: " + status.message() + ")");
  }
  return text;
}

template <typename Product>
Expected<std::shared_ptr<Product>>
Factories<Product>::create(const std::string &name, const Job &job) const {
  // One may make others, and take its time: not under the lock.
  std::optional<Factory<Product>> factory;
  {
    std::lock_guard lock(mutex);
    if (auto it = factories.find(name); it != factories.end())
      factory = it->second;
  }
  if (!factory)
    return errorOf(kind, " '", name, "' is unknown, expected one of ",
                   list(name));
  if (Status status = factory->probe(); !status.ok())
    return errorOf(kind, " '", name, "' cannot be used: ", status.message(),
                   "; others are ", list(name));
  return factory->create(job);
}

template class Factories<Device>;
template class Factories<Fabric>;

Registry &Registry::get() {
  static Registry *registry = [] {
    auto *made = new Registry; // lives as long as the process
    registerBackends(*made);
    return made;
  }();
  return *registry;
}

} // namespace tandem::rt
