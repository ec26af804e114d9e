//===- Device.cpp - descriptions by name ----------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Devices.h"

namespace tandem {

static const std::vector<Device> &getDevices() {
  static const std::vector<Device> devices = [] {
    std::vector<Device> all = {describeCpu()};
    for (Device &device : describeCuda())
      all.push_back(std::move(device));
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

} // namespace tandem
