//===- NN.h - the nn dialect ------------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_NN_NN_H
#define TANDEM_DIALECT_NN_NN_H

#include "tandem/Dialect/NN/Attention.h"
#include "tandem/Dialect/NN/Convolution.h"
#include "tandem/Dialect/NN/Loops.h"
#include "tandem/Dialect/NN/Rules.h"
#include "tandem/Dialect/SPMD/SPMD.h"

#include "tandem/Dialect/NN/NNEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "tandem/Dialect/NN/NNAttrs.h.inc"

#include "tandem/Dialect/NN/NNDialect.h.inc"

#include "tandem/Dialect/NN/Facts.h"

namespace tandem::nn {

class Scalar;

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

/// Each element of the result is one of operand 0, at most converted: reshape,
/// permute, expand, slice, convert.
template <typename ConcreteOp>
class View : public mlir::OpTrait::TraitBase<ConcreteOp, View> {};

/// The elements of operand 0, each once, in another order.
template <typename ConcreteOp>
class Rearrangement
    : public mlir::OpTrait::TraitBase<ConcreteOp, Rearrangement> {};

/// Each element of the result is a sum of elements of the operands in which it
/// is linear, up to signs, or zero.
template <typename ConcreteOp>
class Sums : public mlir::OpTrait::TraitBase<ConcreteOp, Sums> {};

/// Elementwise, and costs no more than a load: no function such as exp, no
/// random numbers.
template <typename ConcreteOp>
class CostsALoad : public mlir::OpTrait::TraitBase<ConcreteOp, CostsALoad> {};

/// Costs less to compute again in the backward pass than to keep.
template <typename ConcreteOp>
class MadeAgain : public mlir::OpTrait::TraitBase<ConcreteOp, MadeAgain> {};

/// Its kernel is a loop of its own (`lib/Conversion/Kernels/OwnLoops.cpp`).
template <typename ConcreteOp>
class OwnLoops : public mlir::OpTrait::TraitBase<ConcreteOp, OwnLoops> {};

/// Operand 1 holds indices, of which one may be out of range at run time.
template <typename ConcreteOp>
class ReadsIndices : public mlir::OpTrait::TraitBase<ConcreteOp, ReadsIndices> {
};

/// Operand 0 is a table, of which only the rows that are asked for are read.
template <typename ConcreteOp>
class Lookup : public mlir::OpTrait::TraitBase<ConcreteOp, Lookup> {};

} // namespace tandem::nn

#include "tandem/Dialect/NN/NNInterfaces.h.inc"

#define GET_OP_CLASSES
#include "tandem/Dialect/NN/NNOps.h.inc"

#endif // TANDEM_DIALECT_NN_NN_H
