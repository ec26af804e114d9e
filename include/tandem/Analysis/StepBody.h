//===- StepBody.h - checks of a step's body ---------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ANALYSIS_STEPBODY_H
#define TANDEM_ANALYSIS_STEPBODY_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/SPMD/SPMD.h"

namespace tandem {

/// Checks that `step` is straight code on tensors: a body of one block, regions
/// in `sched.step` only, and values that are tensors of static shape (or events
/// of `sched`), with forms on the mesh of the module.
/// Reports the first thing that is not so, at its place.
mlir::LogicalResult verifyStepBody(mlir::func::FuncOp step);

/// Which forms a stage leaves: all, those behind `localize`, behind `duplex`
/// (`spmd::getFormsLeft`).
enum class FormsLeft { All, TimeAndAt, At };

/// Checks that every form in `step`, whose body is straight, is on `mesh` and
/// is one that is left. There is none if `mesh` is null. No axis both places
/// tensors (`at`) and splits others. Reports the first one that is not so.
mlir::LogicalResult verifyForms(mlir::func::FuncOp step, spmd::MeshAttr mesh,
                                FormsLeft left);

/// Checks `spmd.layout`, behind `localize`: the whole tensor with its forms on
/// the module's mesh, of which the argument or result is what one device holds:
/// of all strands without `hasTime`, else with the layout's forms on time axes.
/// All that has a role in `@step` needs one, as a Program declares it; with
/// `ofAll`, everything. Without a mesh it is the type itself.
mlir::LogicalResult verifyLayouts(mlir::func::FuncOp step, spmd::MeshAttr mesh,
                                  bool hasTime = false, bool ofAll = false);

/// Checks that there is no `spmd.layout` yet: types are those of whole tensors.
mlir::LogicalResult verifyNoLayouts(mlir::func::FuncOp step);

/// Checks that `op` is of nn or spmd; for a function, every operator of its
/// straight body: nothing is scheduled yet, and every value is a tensor.
mlir::LogicalResult verifyUnscheduled(mlir::Operation *op);
mlir::LogicalResult verifyUnscheduled(mlir::func::FuncOp step);

} // namespace tandem

#endif // TANDEM_ANALYSIS_STEPBODY_H
