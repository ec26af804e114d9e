//===- Host.h - values that wait in the host's memory -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_NN_HOST_H
#define TANDEM_DIALECT_NN_HOST_H

#include "tandem/Dialect/NN/NN.h"

#define GET_OP_CLASSES
#include "tandem/Dialect/NN/HostOps.h.inc"

namespace tandem::nn {

/// Whether `op` sends a tensor to the host's memory or fetches it from there.
inline bool isHostCopy(mlir::Operation *op) {
  return mlir::isa<ToHostOp, FromHostOp>(op);
}

/// Whether `op` fetches what lies on the host between steps.
inline bool fetchesArgument(mlir::Operation *op) {
  return mlir::isa<FromHostOp>(op) &&
         mlir::isa<mlir::BlockArgument>(op->getOperand(0));
}

/// Whether `op` fetches what the step sent to the host.
inline bool fetchesValue(mlir::Operation *op) {
  return mlir::isa<FromHostOp>(op) && !fetchesArgument(op);
}

} // namespace tandem::nn

#endif // TANDEM_DIALECT_NN_HOST_H
