//===- SPMD.h - the spmd dialect --------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SPMD_SPMD_H
#define TANDEM_DIALECT_SPMD_SPMD_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "tandem/Dialect/SPMD/Form.h"
#include "tandem/Dialect/SPMD/Loops.h"
#include "tandem/Dialect/SPMD/PlanText.h"
#include "tandem/Dialect/SPMD/Rule.h"

#define GET_ATTRDEF_CLASSES
#include "tandem/Dialect/SPMD/SPMDAttrs.h.inc"

#include "tandem/Dialect/SPMD/SPMDDialect.h.inc"

#include "tandem/Dialect/SPMD/Facts.h"
#include "tandem/Dialect/SPMD/Planned.h"
#include "tandem/Dialect/SPMD/Shard.h"

#include "tandem/Dialect/SPMD/SPMDInterfaces.h.inc"

namespace tandem::spmd {

/// An operator without operands, which is made again wherever it is read.
template <typename ConcreteOp>
class Source : public mlir::OpTrait::TraitBase<ConcreteOp, Source> {
public:
  static mlir::LogicalResult verifyTrait(mlir::Operation *op) {
    return mlir::OpTrait::impl::verifyZeroOperands(op);
  }
};

inline bool isSource(mlir::Operation *op) { return op->hasTrait<Source>(); }

/// An operator whose result depends on what other ranks hold.
template <typename ConcreteOp>
class Communicates : public mlir::OpTrait::TraitBase<ConcreteOp, Communicates> {
};

/// Whether `op` communicates: the one list of collectives.
inline bool isCollective(mlir::Operation *op) {
  return op->hasTrait<Communicates>();
}

/// Leaves a loop.
template <typename ConcreteOp>
class Carried : public mlir::OpTrait::TraitBase<ConcreteOp, Carried> {};

/// Whether what `op` makes in a loop is read behind it.
inline bool isCarried(mlir::Operation *op) { return op->hasTrait<Carried>(); }

/// What `spmd.coordinate` names for the iteration; no axis has such a name.
inline constexpr llvm::StringLiteral kIterationAxis = ".iteration";

/// Checks that the axes of `op` are space axes of the module's mesh, each once
/// and in its order; gives the number of members of a group.
mlir::FailureOr<int64_t> verifyGroup(mlir::Operation *op, mlir::ArrayAttr axes);

/// Checks that `op`, over groups of `axes`, makes `to` of `from`: the dimension
/// `shrunk` is divided and `grown` multiplied by the number of members.
mlir::LogicalResult verifyCollective(mlir::Operation *op, mlir::ArrayAttr axes,
                                     mlir::ShapedType from, mlir::ShapedType to,
                                     std::optional<int64_t> shrunk,
                                     std::optional<int64_t> grown);

} // namespace tandem::spmd

#define GET_OP_CLASSES
#include "tandem/Dialect/SPMD/SPMDOps.h.inc"

#endif // TANDEM_DIALECT_SPMD_SPMD_H
