//===- SearchPlan.h - a plan by search --------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_SEARCHPLAN_H
#define TANDEM_LIB_TRANSFORMS_PLAN_SEARCHPLAN_H

#include "PlanFile.h"
#include "tandem/Transforms/Plan/Plan.h"

namespace tandem::plan {

/// Whether the options ask for something that needs a plan's cost.
bool isPriced(const PlanOptions &options);

/// Plans all axes of `graph`, by a search or the preset, says what the plan
/// costs, and gives its decisions. `chosen` is what a search found before, if
/// it did. Writes nothing but seconds into the IR. Fails with one error at the
/// step.
mlir::FailureOr<Decisions> planBySearch(StepGraph &graph,
                                        const PlanOptions &options,
                                        std::optional<cost::Plan> chosen);

/// The plan that a search takes within `timeLimit` s (0: no limit), as one of
/// several: it writes no problem, and leaves out a start for another mesh.
/// `isInfeasible`: whether it was proven that there is none.
mlir::FailureOr<cost::Plan> findPlan(StepGraph &graph,
                                     const PlanOptions &options,
                                     double timeLimit, bool &isInfeasible);

/// Costs the plan of a file, which `graph` has; as `planBySearch`.
mlir::FailureOr<Decisions>
costAgain(StepGraph &graph, const PlanOptions &options, const PlanFile &file);

/// Says where the plan of a file, which `graph` has, differs from
/// that of another file, which may be for another mesh; likewise.
mlir::FailureOr<std::string>
compareFiles(StepGraph &graph, const PlanOptions &options, const PlanFile &file,
             StepGraph &otherGraph, const PlanFile &other);

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_SEARCHPLAN_H
