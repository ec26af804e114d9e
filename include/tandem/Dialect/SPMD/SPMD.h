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

} // namespace tandem::spmd

#define GET_OP_CLASSES
#include "tandem/Dialect/SPMD/SPMDOps.h.inc"

#endif // TANDEM_DIALECT_SPMD_SPMD_H
