//===- ExplainPlan.cpp - explanations of plans ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainPlan.h"
#include "mlir/IR/Diagnostics.h"
#include "tandem/Dialect/SPMD/MeshText.h"
#include "tandem/Explain/Explain.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::plan;
using namespace tandem::spmd;

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
    auto module = graph.step->getParentOfType<ModuleOp>();
    if (auto mesh = module->getAttrOfType<StringAttr>(kWholeMeshAttrName))
      explanation->pipeline = mesh.getValue();
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
