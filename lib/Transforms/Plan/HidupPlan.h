//===- HidupPlan.h - HiDup's search on a step -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// HiDup (Zhang et al., SoCC 2022) searches the forward graph on one space axis
// with two duplicas; its cost has the backward pass in it. So the forward part
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

/// The forward part of a problem, under `hidup-overlapped`.
struct ForwardProblem {
  cost::SearchProblem problem;
  /// Signatures of the whole problem, split over time as the presets do.
  cost::Plan natural;
  /// Of each operator: that of the whole problem, and for each signature a
  /// signature there.
  std::vector<unsigned> operators;
  std::vector<std::vector<unsigned>> signatures;
};

/// The forward part of the problem of `graph`. Fails with an error at the step
/// if the mesh is not one space axis and two microbatches.
mlir::FailureOr<ForwardProblem>
makeForwardProblem(const StepGraph &graph, const Extraction &extraction);

/// The plan of HiDup's search, stages and waiting collectives as for presets.
/// Fails with an error at the step if there is no plan.
mlir::FailureOr<cost::Plan> planByHidup(const StepGraph &graph,
                                        const Extraction &extraction,
                                        const ForwardProblem &forward,
                                        const search::SearchOptions &options);

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_HIDUPPLAN_H
