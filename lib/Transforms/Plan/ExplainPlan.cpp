//===- ExplainPlan.cpp - explanations of plans ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainPlan.h"
#include "mlir/IR/Diagnostics.h"
#include "tandem/Explain/Explain.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::plan;

LogicalResult tandem::plan::answer(const StepGraph &graph,
                                   const Extraction &extraction,
                                   const cost::Plan &plan,
                                   const PlanOptions &options) {
  const cost::SearchProblem &problem = extraction.problem;
  std::string error;
  if (options.explain) {
    explain::ExplainOptions ofSearch;
    ofSearch.timeLimit = options.searchTimeLimit;
    ofSearch.endsSearch = options.exchange.endsSearch;
    auto explanation = explain::explain(problem, plan, ofSearch, error);
    if (!explanation)
      return emitError(graph.getLoc()) << "the plan has no cost: " << error;
    options.exchange.result->explanation = explain::printText(*explanation);
    options.exchange.result->explanationJson = explain::printJson(*explanation);
  }
  if (options.failOnReplicate >= 0)
    error = explain::findReplicated(problem, plan, options.failOnReplicate);
  return error.empty() ? success() : emitError(graph.getLoc()) << error;
}

std::string tandem::plan::printGap(const cost::Plan &plan) {
  if (plan.isOptimal)
    return ", optimal";
  if (plan.lowerBound <= 0)
    return "";
  return llvm::formatv(", at most {0:f2} % above the best",
                       100 * cost::getGap(plan.cost, plan.lowerBound))
      .str();
}

/// In the smallest form that its producer can give it.
static int64_t getLeastBytes(const cost::SearchProblem &problem,
                             unsigned producer, unsigned result) {
  unsigned tensor = problem.operators[producer].results[result];
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const cost::Signature &signature : problem.getSignatures(producer))
    least =
        std::min(least, problem.getBytes(tensor, signature.results[result]));
  return least;
}

std::string tandem::plan::suggestMemory(const cost::SearchProblem &problem,
                                        bool recomputes) {
  std::vector<bool> isSaved(problem.tensors.size());
  for (const cost::Operator &op : problem.operators)
    for (unsigned tensor : op.operands)
      isSaved[tensor] = isSaved[tensor] || op.pass == cost::Pass::Backward;
  int64_t saved = 0, stored = 0;
  for (auto [index, op] : llvm::enumerate(problem.operators))
    for (auto [result, tensor] : llvm::enumerate(op.results)) {
      if (op.kind == cost::Operator::Kind::Resident)
        stored += getLeastBytes(problem, index, result);
      else if (op.pass == cost::Pass::Forward && isSaved[tensor])
        saved += getLeastBytes(problem, index, result);
    }
  if (saved <= stored)
    return "; parameters and states take most: try more devices";
  return std::string("; what is saved for the backward pass takes most: try ") +
         (recomputes ? "" : "--recompute, ") +
         "a smaller batch or more devices";
}
