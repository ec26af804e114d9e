//===- ExplainPlan.cpp - explanations of plans ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainPlan.h"
#include "mlir/IR/Diagnostics.h"
#include "tandem/Analysis/Bytes.h"
#include "tandem/Dialect/NN/Host.h"
#include "tandem/Dialect/SPMD/MeshText.h"
#include "tandem/Explain/Explain.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::plan;
using namespace tandem::spmd;

/// Of what is stored there or sent there; a new value takes the place of the
/// old one.
static std::vector<int64_t> listHostElements(const StepGraph &graph,
                                             const Extraction &extraction) {
  std::vector<int64_t> elements;
  for (unsigned number : extraction.values) {
    const ValueNode &value = graph.values[number];
    bool lies =
        value.isOnHost &&
        (value.producer < 0 || isa<nn::ToHostOp>(graph.ops[value.producer].op));
    auto type = dyn_cast<RankedTensorType>(value.value.getType());
    elements.push_back(lies && type ? getElementBytes(type.getElementType())
                                    : 0);
  }
  return elements;
}

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
    ofSearch.hostElements = listHostElements(graph, extraction);
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
