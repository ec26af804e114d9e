//===- ExtractProblem.h - a search problem from a step ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Operators of the problem, in its order:
//
//  * the arguments that are tensors: inputs (kind Input), parameters, states
//    and buffers (Resident), whose signatures are the forms that they may be
//    stored in: any that divides, `full` over time unless it is a batch, and as
//    pinned;
//  * the groups of the step's operators (OperatorGroups.h);
//  * the step's results (Output, pass Update). A new value of an argument, and
//    a gradient, is tied to the form that the argument is stored in; everything
//    else is returned `full`.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_EXTRACTPROBLEM_H
#define TANDEM_LIB_TRANSFORMS_PLAN_EXTRACTPROBLEM_H

#include "GroupSignatures.h"
#include "Presets.h"

namespace tandem::plan {

/// A problem and what its parts stand for in the graph.
struct Extraction {
  cost::SearchProblem problem;
  /// What each operator of the problem stands for.
  std::vector<Part> origins;
  /// The value of each tensor; the tensor of each value, or -1.
  std::vector<unsigned> values;
  std::vector<int> tensors;
  /// The members' choices, by signature set; empty for arguments and results.
  std::vector<std::vector<std::vector<GroupSignatures::MemberChoices>>> choices;
  /// Of each operator that updates what lies on the host, what that is; else
  /// empty.
  std::vector<std::string> updated;
  /// The members' sources, by signature set; empty where nobody chooses.
  std::vector<std::vector<std::vector<uint8_t>>> sources;
};

/// A layout as forms on as many axes, and forms as a layout.
spmd::Forms toForms(const cost::Layout &layout, unsigned numAxes);
cost::Layout toLayout(llvm::ArrayRef<spmd::AxisForm> forms);

/// Whether all members of a group make values again, but for choices among
/// values.
bool makesAgain(const StepGraph &graph, const OperatorGroup &group);

/// The problem of `graph`, under its pins, priced for `cluster`. Fails with one
/// error at the step if the mesh has more axes than a problem can have, does
/// not fit the cluster, or if a pin leaves no form.
mlir::FailureOr<std::unique_ptr<Extraction>>
extractProblem(const StepGraph &graph, const cost::Cluster &cluster);

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_EXTRACTPROBLEM_H
