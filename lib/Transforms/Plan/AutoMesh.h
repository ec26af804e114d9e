//===- AutoMesh.h - the mesh by search --------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_AUTOMESH_H
#define TANDEM_LIB_TRANSFORMS_PLAN_AUTOMESH_H

#include "SearchPlan.h"

namespace tandem::plan {

/// What stands for a mesh that is to be found.
inline constexpr llvm::StringLiteral kAutoMesh = "auto";

struct MeshChoice {
  std::string mesh; // `data=8,model=8`
  cost::Plan plan;
};

/// Searches a plan on each mesh of the cluster's devices, within the time limit
/// of all of them together, says in remarks what each costs, and gives the
/// cheapest. Fails with one error if there is no cluster, or no mesh with a
/// plan. Writes nothing into the IR.
mlir::FailureOr<MeshChoice> chooseMesh(const StepGraph &step,
                                       const PlanOptions &options);

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_AUTOMESH_H
