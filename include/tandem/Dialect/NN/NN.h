//===- NN.h - the nn dialect ------------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_NN_NN_H
#define TANDEM_DIALECT_NN_NN_H

#include "tandem/Dialect/NN/Rules.h"
#include "tandem/Dialect/SPMD/SPMD.h"

#include "tandem/Dialect/NN/NNDialect.h.inc"

namespace tandem::nn {

namespace detail {
/// Checks that the operands broadcast to the shape of the result, and the
/// element types.
mlir::LogicalResult verifyBroadcasting(mlir::Operation *op);
} // namespace detail

/// An elementwise operator whose operands broadcast as in NumPy.
template <typename ConcreteOp>
class Broadcasting : public mlir::OpTrait::TraitBase<ConcreteOp, Broadcasting> {
public:
  static mlir::LogicalResult verifyTrait(mlir::Operation *op) {
    return detail::verifyBroadcasting(op);
  }
};

} // namespace tandem::nn

#define GET_OP_CLASSES
#include "tandem/Dialect/NN/NNOps.h.inc"

#endif // TANDEM_DIALECT_NN_NN_H
