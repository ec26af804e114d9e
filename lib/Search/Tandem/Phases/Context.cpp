//===- Context.cpp - shared state of a search -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Phases/Context.h"
#include "Tandem/Limits.h"
#include "Tandem/Relaxation/Fold.h"
#include "Tandem/Sums/Sum.h"

using namespace tandem::cost;
using namespace tandem::search;

/// Whether costs add up, and sweeps are short enough.
static bool isSum(const FactorGraph &graph) {
  if (!graph.facts.does(Mechanism::Sums))
    return false;
  uint64_t work = 0;
  for (unsigned i = 0; i < graph.variables.size(); ++i)
    work += graph.getSweepWork(i);
  size_t numOperators = graph.facts.problem.operators.size();
  return work <= getSumWork(kSumBoundWork, numOperators) / kLeastSumSweeps &&
         SumModel::isSum(graph.facts);
}

SearchContext::SearchContext(const SearchProblem &problem,
                             const SearchOptions &options, SearchEnd &end)
    : problem(problem), options(options), end(end),
      facts(problem, options.without), table(problem), graph(facts, table),
      repeats(does(Mechanism::Folding) ? findRepeats(graph, kFoldDistance)
                                       : getUnfolded(graph)),
      addsUp(isSum(graph)), pool(facts, table) {}

bool SearchContext::isClosed() const {
  return pool.best &&
         (pool.seconds - lowerBound <= kProven * pool.seconds ||
          pool.seconds <= lowerBound * (1 + options.gap) * (1 + kEqualCost));
}

bool SearchContext::findsForms() const {
  return addsUp && getNumOperators() <= kManySummed;
}

std::vector<unsigned>
SearchContext::getSignatures(const std::vector<unsigned> &values) const {
  std::vector<unsigned> signatures;
  for (unsigned variable : facts.groupOf)
    signatures.push_back(values[variable]);
  return signatures;
}
