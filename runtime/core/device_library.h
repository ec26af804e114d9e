//===- device_library.h - device library, loaded on demand ------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A backend that few use is a library of its own, libtandem-NAME.so, which has
// what it needs of core once more: who never asks for the device has nothing of
// it. The library has the two symbols below, and was built with the headers
// that the runtime was built with, as their classes go between them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_DEVICE_LIBRARY_H
#define TANDEM_RT_CORE_DEVICE_LIBRARY_H

#include "core/registry.h"

#include <string>

namespace tandem::rt {

/// Loads libtandem-NAME.so with the first call, and does what its factory does.
/// It is looked for beside the program or module that has the runtime, in
/// `../lib` from there, as a build has it, and in `../tandem`, as a wheel has
/// it for its commands. Fails where it is missing, cannot be loaded, or is of
/// another build, by its path.
Factory<Device> libraryDevice(const std::string &name);

/// What the library has by these names: the hash of the headers of core that it
/// was built with (stamp.h), and what fills in its factory.
inline constexpr const char *kDeviceStampSymbol = "tandemDeviceStamp";
inline constexpr const char *kDeviceFactorySymbol = "tandemDeviceFactory";
using DeviceFactoryFunction = void(Factory<Device> *factory);

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_DEVICE_LIBRARY_H
