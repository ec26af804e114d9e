//===- Device.cpp - the device of a module --------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/DialectImplementation.h"
#include "tandem/Dialect/Sched/Sched.h"

using namespace mlir;

namespace tandem::sched {

LogicalResult DeviceAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 StringRef name) {
  if (findDevice(name))
    return success();
  return emitError() << "unknown device '" << name << "', expected one of "
                     << listDevices();
}

Attribute DeviceAttr::parse(AsmParser &parser, Type) {
  StringRef name;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseKeyword(&name) || parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(),
                    name);
}

void DeviceAttr::print(AsmPrinter &printer) const {
  printer << "<" << getName() << ">";
}

const Device &getDevice(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  auto named = module ? module->getAttrOfType<DeviceAttr>(kDeviceAttrName)
                      : DeviceAttr();
  return *findDevice(named ? std::string_view(named.getName())
                           : kDefaultDevice);
}

LogicalResult setDevice(ModuleOp module, StringRef name) {
  auto device = DeviceAttr::getChecked([&] { return module.emitError(); },
                                       module.getContext(), name);
  if (!device)
    return failure();
  auto named = module->getAttrOfType<DeviceAttr>(kDeviceAttrName);
  if (named && named != device)
    return module.emitError("device '")
           << name << "' for a module that names '" << named.getName()
           << "', expected the same";
  module->setAttr(kDeviceAttrName, device);
  return success();
}

} // namespace tandem::sched
