//===- ExplainPlan.h - what is asked about a plan ---------------*- C++ -*-===//
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

/// What is asked about a plan beside its cost.
struct Questions {
  bool explains = false;
  /// Seconds for what an explanation searches again; 0: no limit.
  double timeLimit = 0;
  /// Tensors of more bytes that are left whole on all devices are an error;
  /// negative: none.
  int64_t failOnReplicate = -1;
  /// A plan file to compare the plan with; empty: none.
  std::string compareWith;
  /// Asked while an explanation searches: true ends that. May be empty.
  std::function<bool()> endsSearch;

  bool isAny() const {
    return explains || failOnReplicate >= 0 || !compareWith.empty();
  }
};

/// Answers in `result` what is asked about a plan that has been derived, but
/// for the comparison. Fails with one error at the step.
mlir::LogicalResult answer(const StepGraph &graph, const Extraction &extraction,
                           const cost::Plan &plan, const Questions &questions,
                           PlanResult &result);

/// What would make a plan fit, by what takes most memory in every plan: what
/// the backward pass reads of the forward pass, or parameters and states.
std::string suggestMemory(const cost::SearchProblem &problem, bool recomputes);

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_EXPLAINPLAN_H
