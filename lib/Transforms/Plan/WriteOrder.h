//===- WriteOrder.h - a plan's stages and copies in the IR ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_WRITEORDER_H
#define TANDEM_LIB_TRANSFORMS_PLAN_WRITEORDER_H

#include "PlanRecord.h"

namespace tandem::plan {

/// Writes what a search decided beside signatures into the IR: `spmd.copies`,
/// `spmd.waits`, `sched.stage` and `sched.in_turn` (Plan.h, PlannedOrder.h).
/// Stages only if the record is that of a search. Errors name the line of
/// `file`.
mlir::LogicalResult writeOrder(StepGraph &graph, const PlanRecord &record,
                               llvm::StringRef file);

/// Takes away what these functions write, on operators, arguments
/// and results of `step`.
void clearOrder(mlir::func::FuncOp step);

/// Writes what the plan counts for each operator, and the prices of changes
/// (`sched.seconds`, `sched.prices`), so that a schedule can be laid out on a
/// time line.
void writeSeconds(StepGraph &graph, const Extraction &extraction,
                  const cost::Plan &plan);

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_WRITEORDER_H
