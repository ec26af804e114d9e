//===- HidupPlan.h - HiDup's search on a step -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// HiDup (Zhang et al., SoCC 2022) searches the forward graph on one space axis
// with two strands; its cost has the backward pass in it. So the forward part
// of a problem is made one of the accounting `hidup-overlapped`: tensors are
// those of one strand, split over time as the presets do, and a parameter that
// is stored whole is `replicate`. The backward pass and the updates are then
// planned by descent around the forward forms, as for presets.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_HIDUPPLAN_H
#define TANDEM_LIB_TRANSFORMS_PLAN_HIDUPPLAN_H

#include "ApplyPlan.h"
#include "tandem/Search/Search.h"

namespace tandem::plan {

/// The plan of HiDup's search, stages and waiting collectives as for presets.
/// Fails with an error at the step if the mesh is not one space axis and two
/// microbatches, if there is no plan, or if `write` fails with the problem that
/// is searched.
mlir::FailureOr<cost::Plan> planByHidup(
    const StepGraph &graph, const Extraction &extraction,
    const search::SearchOptions &options,
    llvm::function_ref<mlir::LogicalResult(const cost::SearchProblem &)> write);

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_HIDUPPLAN_H
