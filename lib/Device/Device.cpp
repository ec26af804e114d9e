//===- Device.cpp - descriptions by name ----------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Devices.h"
#include "tandem/Device/Gpu.h"
#include <algorithm>

namespace tandem {

static const std::vector<Device> &getDevices() {
  static const std::vector<Device> devices = [] {
    std::vector<Device> all = {describeCpu()};
    for (Device &device : describeCuda())
      all.push_back(std::move(device));
    all.push_back(describeSimulatedCpu());
    return all;
  }();
  return devices;
}

const Device *findDevice(std::string_view name) {
  for (const Device &device : getDevices())
    if (device.name == name)
      return &device;
  return nullptr;
}

std::string listDevices() {
  std::string names;
  for (const Device &device : getDevices())
    names.append(names.empty() ? "" : ", ").append(device.name);
  return names;
}

std::vector<std::string_view> getRuntimeDevices() {
  std::vector<std::string_view> names;
  for (const Device &device : getDevices()) {
    const Gpu *gpu = findGpu(device);
    std::string_view name = gpu ? gpu->runtimeDevice : device.name;
    if (std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  }
  return names;
}

} // namespace tandem
