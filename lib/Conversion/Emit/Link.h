//===- Link.h - a Program of actions ----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An action of a pipeline is compiled like a step: to a Program of its own. The
// functions of points say which actions run, on which values. Here the actions'
// commands are listed once for each time that they run, with the buffers of the
// point in place of the action's own.
//
// Where a run ends, all queues but those of transfers wait for each other, so
// that what lives within runs shares one arena. Runs of a group take turns.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_EMIT_LINK_H
#define TANDEM_LIB_CONVERSION_EMIT_LINK_H

#include "Strands.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem_rt/program_builder.h"
#include "llvm/ADT/DenseSet.h"

namespace tandem {

/// Adds to `builder`, which has declarations and the code object of all
/// kernels, a rank program per point of `axis`: the functions @p0, @p1, ... of
/// `module`. `actions` are the Programs of its modules. Points of `full` hold
/// nothing for the sake of transfers.
mlir::LogicalResult linkPoints(mlir::ModuleOp module, uint32_t axis,
                               const ActionPrograms &actions,
                               const llvm::DenseSet<int64_t> &full,
                               rt::ProgramBuilder &builder);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_EMIT_LINK_H
