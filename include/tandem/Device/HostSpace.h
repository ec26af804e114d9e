//===- HostSpace.h - the host's memory beside a device ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DEVICE_HOSTSPACE_H
#define TANDEM_DEVICE_HOSTSPACE_H

#include "tandem/Device/Device.h"
#include <algorithm>
#include <optional>

namespace tandem {

/// The number, in the order of Programs, of the memory of the host that a
/// device copies from and to by itself; none if it has none.
inline std::optional<uint32_t> findHostSpace(const Device &device) {
  auto found = std::ranges::find(device.memorySpaces, rt::MemoryKind::Pinned,
                                 &rt::MemorySpace::kind);
  if (found == device.memorySpaces.end())
    return std::nullopt;
  return static_cast<uint32_t>(found - device.memorySpaces.begin());
}

} // namespace tandem

#endif // TANDEM_DEVICE_HOSTSPACE_H
