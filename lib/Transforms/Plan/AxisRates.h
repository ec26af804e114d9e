//===- AxisRates.h - what changes along the axes take -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_AXISRATES_H
#define TANDEM_LIB_TRANSFORMS_PLAN_AXISRATES_H

#include "StepGraph.h"
#include "tandem/Cost/Cluster.h"

namespace tandem::plan {

/// The cluster of the file at `path`, or else a laptop of the mesh's devices.
/// Fails with an error at the step.
mlir::FailureOr<cost::Cluster> getCluster(const StepGraph &graph,
                                          const std::string &path);

/// The axes of the graph's mesh, priced for `cluster`. A pipe axis has no price
/// here, but ranks of the others lie around it. Fails with an error at the step
/// if the mesh does not fit the cluster.
mlir::FailureOr<std::vector<cost::Axis>>
priceAxes(const StepGraph &graph, const cost::Cluster &cluster);

/// Latency and time of each kind of change, by the name of the axis.
mlir::DictionaryAttr makeRates(llvm::ArrayRef<cost::Axis> axes,
                               mlir::MLIRContext *context);

/// Writes `spmd.rates`, unless there is nothing to send. Likewise.
mlir::LogicalResult writeRates(const StepGraph &graph, const std::string &path);

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_AXISRATES_H
