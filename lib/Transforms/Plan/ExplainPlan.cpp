//===- ExplainPlan.cpp - what is asked about a plan -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainPlan.h"
#include "mlir/IR/Diagnostics.h"
#include "tandem/Search/Explain.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::plan;

LogicalResult tandem::plan::answer(const StepGraph &graph,
                                   const Extraction &extraction,
                                   const cost::Plan &plan,
                                   const Questions &questions,
                                   PlanResult &result) {
  func::FuncOp step = graph.step;
  std::string error;
  if (questions.explains) {
    search::ExplainOptions options;
    options.timeLimit = questions.timeLimit;
    options.endsSearch = questions.endsSearch;
    auto explanation =
        search::explain(extraction.problem, plan, options, error);
    if (!explanation)
      return emitError(step.getLoc()) << "the plan has no cost: " << error;
    result.explanation = search::printText(*explanation);
    result.explanationJson = search::printJson(*explanation);
  }
  if (questions.failOnReplicate >= 0)
    error = search::findReplicated(extraction.problem, plan,
                                   questions.failOnReplicate);
  return error.empty() ? success() : emitError(step.getLoc()) << error;
}
