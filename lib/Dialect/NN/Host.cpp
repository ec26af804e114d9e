//===- Host.cpp - values that wait in the host's memory -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/Host.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace tandem::nn;

#define GET_OP_CLASSES
#include "tandem/Dialect/NN/HostOps.cpp.inc"

static LogicalResult verifyCopy(Operation *op) {
  Type input = op->getOperand(0).getType(), result = op->getResult(0).getType();
  auto isLike = [](Type a, Type b) {
    return cast<RankedTensorType>(a).getShape() ==
               cast<RankedTensorType>(b).getShape() &&
           getElementTypeOrSelf(a) == getElementTypeOrSelf(b);
  };
  if (isLike(input, result))
    return success();
  return op->emitOpError("copies ")
         << input << " to " << result << ", expected equal types";
}

LogicalResult ToHostOp::verify() { return verifyCopy(*this); }

LogicalResult FromHostOp::verify() { return verifyCopy(*this); }
