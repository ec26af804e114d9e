//===- WriteDecisions.h - a plan in the IR ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_WRITEDECISIONS_H
#define TANDEM_LIB_TRANSFORMS_PLAN_WRITEDECISIONS_H

#include "Decisions.h"

namespace tandem::plan {

/// Writes forms, signatures and, of a search, the other decisions into the IR:
/// what Plan.h lists, but for seconds and prices.
void writeDecisions(const StepGraph &graph, const Decisions &decisions);

/// Takes away what the plan stage writes.
void clearDecisions(mlir::ModuleOp module);

/// Writes what the plan counts for each operator, and the prices of changes
/// (`seconds`, `prices`), so that a schedule can be laid out on a
/// time line.
void writeSeconds(const StepGraph &graph, const Extraction &extraction,
                  const cost::Plan &plan);

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_WRITEDECISIONS_H
