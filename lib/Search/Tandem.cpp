//===- Tandem.cpp - Tandem's own search -----------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TandemLabels.h"
#include "tandem/Search/Search.h"

using namespace tandem::cost;
using namespace tandem::search;

SearchResult tandem::search::searchTandem(const SearchProblem &problem,
                                          const SearchOptions &options) {
  if (problem.accounting != Accounting::Tandem)
    return searchHidup(problem, options);
  SearchResult result;
  Facts facts(problem);
  ChangeTable table(problem);
  LabelLimits limits;
  LabelResult labels = searchLabels(facts, table, limits);
  result.numVisited = labels.numLabels;
  if (!labels.plan) {
    result.isInfeasible = labels.isComplete;
    result.error = labels.isComplete
                       ? "no plan is legal within the limit of " +
                             std::to_string(problem.memoryLimit) + " bytes"
                       : "the problem has too many partial "
                         "plans for an exact search";
    return result;
  }
  if (derive(problem, *labels.plan, result.error)) {
    labels.plan->isOptimal = true;
    labels.plan->lowerBound = labels.plan->cost;
    result.plan = std::move(labels.plan);
  }
  return result;
}
