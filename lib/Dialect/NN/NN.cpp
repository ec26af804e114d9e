//===- NN.cpp - the nn dialect --------------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/NN.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace tandem::nn;

#include "tandem/Dialect/NN/NNDialect.cpp.inc"

void NNDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "tandem/Dialect/NN/NNOps.cpp.inc"
      >();
}

static LogicalResult verifyAttribute(Location loc, NamedAttribute attribute) {
  StringRef name = attribute.getName();
  Attribute value = attribute.getValue();
  bool isString = name == NNDialect::kRoleAttrName ||
                  name == NNDialect::kNameAttrName ||
                  name == NNDialect::kPassAttrName;
  bool isInteger =
      name == NNDialect::kUpdatesAttrName || name == NNDialect::kIdAttrName;
  if (isString && !isa<StringAttr>(value))
    return emitError(loc) << "'" << name << "' is " << value
                          << ", expected a string";
  if (isInteger && !isa<IntegerAttr>(value))
    return emitError(loc) << "'" << name << "' is " << value
                          << ", expected an integer";
  return success();
}

LogicalResult NNDialect::verifyOperationAttribute(Operation *op,
                                                  NamedAttribute attribute) {
  return verifyAttribute(op->getLoc(), attribute);
}

LogicalResult NNDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                  unsigned,
                                                  NamedAttribute attribute) {
  return verifyAttribute(op->getLoc(), attribute);
}

LogicalResult NNDialect::verifyRegionResultAttribute(Operation *op, unsigned,
                                                     unsigned resultIndex,
                                                     NamedAttribute attribute) {
  if (failed(verifyAttribute(op->getLoc(), attribute)))
    return failure();
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function || attribute.getName() != kUpdatesAttrName)
    return success();
  int64_t argument = cast<IntegerAttr>(attribute.getValue()).getInt();
  if (argument < 0 || argument >= function.getNumArguments())
    return op->emitError() << "result " << resultIndex << " updates argument "
                           << argument << ", but there are "
                           << function.getNumArguments();
  Type from = function.getArgumentTypes()[argument];
  Type to = function.getResultTypes()[resultIndex];
  if (from != to)
    return op->emitError() << "result " << resultIndex << " of type " << to
                           << " updates argument " << argument << " of type "
                           << from;
  return success();
}
