//===- NN.cpp - the nn dialect --------------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/NN.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tandem::nn;

#include "tandem/Dialect/NN/NNDialect.cpp.inc"
#include "tandem/Dialect/NN/NNEnums.cpp.inc"

#include "tandem/Dialect/NN/NNInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "tandem/Dialect/NN/NNAttrs.cpp.inc"

void NNDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "tandem/Dialect/NN/NNAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "tandem/Dialect/NN/NNOps.cpp.inc"
      >();
}
