//===- NameDevice.cpp - device of a module --------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/Lower/Lower.h"
#include "tandem/Dialect/Sched/Sched.h"

using namespace mlir;

namespace tandem::lower {

#define GEN_PASS_DEF_NAMEDEVICE
#include "tandem/Conversion/Lower/Passes.h.inc"

namespace {
struct NameDevicePass : impl::NameDeviceBase<NameDevicePass> {
  using NameDeviceBase::NameDeviceBase;
  void runOnOperation() override {
    StringRef name = device.empty()
                         ? StringRef(sched::getDevice(getOperation()).name)
                         : StringRef(device);
    if (failed(sched::setDevice(getOperation(), name)))
      signalPassFailure();
  }
};
} // namespace

} // namespace tandem::lower
