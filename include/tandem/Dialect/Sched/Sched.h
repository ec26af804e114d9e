//===- Sched.h - the sched dialect ------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SCHED_SCHED_H
#define TANDEM_DIALECT_SCHED_SCHED_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "tandem/Dialect/Sched/SchedEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "tandem/Dialect/Sched/SchedAttrs.h.inc"

#include "tandem/Dialect/Sched/SchedDialect.h.inc"

#include "tandem/Dialect/Sched/Facts.h"
#include "tandem/Dialect/Sched/Place.h"

#define GET_TYPEDEF_CLASSES
#include "tandem/Dialect/Sched/SchedTypes.h.inc"

#include "tandem/Dialect/Sched/SchedInterfaces.h.inc"

#define GET_OP_CLASSES
#include "tandem/Dialect/Sched/SchedOps.h.inc"

#endif // TANDEM_DIALECT_SCHED_SCHED_H
