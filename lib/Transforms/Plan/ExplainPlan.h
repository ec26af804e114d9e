//===- ExplainPlan.h - explanations of plans --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_EXPLAINPLAN_H
#define TANDEM_LIB_TRANSFORMS_PLAN_EXPLAINPLAN_H

#include "ApplyPlan.h"
#include "tandem/Transforms/Plan/Plan.h"

namespace tandem::plan {

/// Answers in the options' result what they ask about a plan that has been
/// derived, but for a comparison. Fails with one error at the step.
mlir::LogicalResult answer(const StepGraph &graph, const Extraction &extraction,
                           const cost::Plan &plan, const PlanOptions &options);

/// `, optimal`, or how far the plan may be from the best; empty if nothing was
/// proven.
std::string printGap(const cost::Plan &plan);

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_EXPLAINPLAN_H
