//===- OperatorGroups.h - groups of operators -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A search is quick if little has to be decided. Operators of the step are put
// into groups; a group is one operator of the search problem, and no value
// changes its form inside of it. What joins (docs/rationale/plan.md says what
// this costs):
//
//  * the elementwise operators that update one parameter and its states;
//  * an elementwise operator or view with one operand of weight joins the
//    operators that read its result, if they are of one group and pass: a
//    change of form behind it can be made before it;
//  * a view or scaling joins the operator that it alone reads: a change before
//    it can be made behind it.
//
// *Sources* are in no group: what depends on no argument (constants, iota,
// masks made of them), and scalars made of the step, the seed and learning
// rates. They are made in whatever form is wanted.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_OPERATORGROUPS_H
#define TANDEM_LIB_TRANSFORMS_PLAN_OPERATORGROUPS_H

#include "StepGraph.h"

namespace tandem::plan {

struct OperatorGroup {
  PassKind pass = PassKind::Forward;
  /// Operators of the step, in its order.
  llvm::SmallVector<unsigned, 4> members;
  /// Values that it reads and does not make, each once; no sources, but for one
  /// scalar argument where there would be none.
  llvm::SmallVector<unsigned, 4> inputs;
  /// Values that it makes and that others, or the return, read.
  llvm::SmallVector<unsigned, 2> outputs;
};

/// What is one operator of a search problem, and what a stage can begin with.
struct Part {
  enum class Kind : uint8_t { Argument, Group, Result } kind;
  /// Of the argument, the group or the result.
  unsigned index;
  auto operator<=>(const Part &) const = default;
};

struct OperatorGroups {
  explicit OperatorGroups(const StepGraph &graph);

  /// Forward, then backward, then updates, each in an order in which they can
  /// run that follows the step.
  std::vector<OperatorGroup> groups;
  /// Group of each operator; -1 for sources.
  std::vector<int> groupOf;
  /// Whether each value is a source.
  std::vector<bool> isSource;
};

/// Brings groups that are in any order into theirs.
void sortGroups(const StepGraph &graph, OperatorGroups &groups);

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_OPERATORGROUPS_H
