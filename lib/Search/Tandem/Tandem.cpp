//===- Tandem.cpp - Tandem's own search -----------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Driver.h"
#include "Tandem/Improve/StageTies.h"
#include "Tandem/Improve/Ties.h"
#include "Tandem/Limits.h"
#include "tandem/Cost/Accounting.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

/// Whether every plan fits: all tensors, with a copy for each user, do at once.
static bool isAmple(const SearchProblem &problem) {
  double bytes = 0, strands = static_cast<double>(problem.getNumStrands());
  for (unsigned tensor = 0; tensor < problem.tensors.size(); ++tensor)
    bytes += strands * static_cast<double>(problem.getBytes(tensor, Layout()));
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    for (unsigned tensor : problem.operators[op].operands)
      bytes +=
          strands * static_cast<double>(problem.getBytes(tensor, Layout()));
    double workspace = 0;
    for (const Signature &signature : problem.getSignatures(op))
      workspace = std::max(workspace, static_cast<double>(signature.workspace));
    bytes += workspace;
  }
  // Sums over time stand beside their terms.
  return 2 * bytes < static_cast<double>(problem.memoryLimit);
}

static SearchResult runDriver(const SearchProblem &problem,
                              const SearchOptions &options, SearchEnd &end) {
  if (problem.memoryLimit < kNoLimit && isAmple(problem)) {
    SearchProblem free = problem;
    free.memoryLimit = kNoLimit;
    return Driver(free, options, end).run();
  }
  return Driver(problem, options, end).run();
}

bool tandem::search::isSearchedByStages(const SearchProblem &problem) {
  return getRules(problem.accounting).hasStagePasses();
}

SearchResult tandem::search::searchTandem(const SearchProblem &problem,
                                          const SearchOptions &options) {
  if (isSearchedByStages(problem))
    return searchHidup(problem, options);
  if (problem.accounting == Accounting::Oases)
    return searchOases(problem, options);
  if (problem.operators.empty()) {
    SearchResult result;
    result.error = "the problem has no operators, expected some";
    return result;
  }
  SearchEnd end(options);
  SearchResult result = runDriver(problem, options, end);
  if (!result.plan || end.isOver())
    return result;
  double best = result.plan->cost, bound = result.plan->lowerBound;
  auto proceeds = [&] { return end.proceeds(1, best, bound); };
  if (options.without.has(Mechanism::EndTies))
    return result;
  if (result.plan->isOptimal || problem.operators.size() <= kMaxRefined)
    settleTies(problem, *result.plan, proceeds);
  joinStages(problem, *result.plan, proceeds);
  return result;
}
