//===- Devices.h - the descriptions -----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_DEVICES_H
#define TANDEM_LIB_DEVICE_DEVICES_H

#include "tandem/Device/Device.h"

namespace tandem {

Device describeCpu();
Device describeSimulatedCpu();
/// One for each kind of GPU, simulated ones included.
std::vector<Device> describeCuda();

} // namespace tandem

#endif // TANDEM_LIB_DEVICE_DEVICES_H
