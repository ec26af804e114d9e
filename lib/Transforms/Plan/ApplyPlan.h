//===- ApplyPlan.h - a search's plan on the step ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_APPLYPLAN_H
#define TANDEM_LIB_TRANSFORMS_PLAN_APPLYPLAN_H

#include "ExtractProblem.h"
#include "tandem/Cost/Plan.h"

namespace tandem::plan {

/// Writes the forms of arguments and the signatures of all operators in groups
/// into `graph`. Sources are left: `shard` makes them as they are wanted.
void applyPlan(StepGraph &graph, const Extraction &extraction,
               const cost::Plan &plan);

/// The plan, in one stage, whose signatures are those of `planned`, a graph of
/// a plan file: of each group the signature that differs least.
cost::Plan convertPlan(const StepGraph &planned, const Extraction &extraction);

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_APPLYPLAN_H
