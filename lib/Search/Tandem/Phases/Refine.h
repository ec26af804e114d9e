//===- Refine.h - the cheapest forms for given stages -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where nothing overlaps but what waits, the cheapest forms are found directly
// (Tandem/Sums/SumSearch.h): of all plans, if pieces of what waits cost
// nothing, and of given stages. Stages follow from forms and forms from stages,
// so both are chosen in turn. A plan of another problem that splits nothing
// over time is refined in the problem without its time axis.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_PHASES_REFINE_H
#define TANDEM_LIB_SEARCH_TANDEM_PHASES_REFINE_H

#include "Tandem/Phases/Context.h"
#include "Tandem/Phases/UntimedSearch.h"
#include "Tandem/Sums/SumSearch.h"
#include <map>

namespace tandem::search {

class StageRefiner {
public:
  StageRefiner(SearchContext &context, UntimedSearch &untimed)
      : context(context), untimed(untimed), problem(context.problem),
        pool(context.pool) {}

  /// Of plans whose costs add up the best one is found directly. It is the best
  /// one at all if pieces of what waits cost nothing and memory suffices.
  void searchAll();

  /// Better cuts for the best plan's forms, other forms that cost the same, and
  /// the cheapest forms for its stages, in turn until none of these gains.
  /// `work` is what is left for forms.
  void refine(uint64_t &work);
  /// The same for the plan that the search ends with; then cuts that gain
  /// nothing go.
  void refineLast();

private:
  uint64_t getWork(uint64_t work) const;
  bool hasExactForms(uint64_t work) const;
  bool tryCheapestForms(uint64_t &work);
  bool tryTies();
  void settleStages();
  bool mayGoOn() { return !context.isClosed() && context.proceeds(0.9); }

  SearchContext &context;
  UntimedSearch &untimed;
  const cost::SearchProblem &problem;
  PlanPool &pool;
  /// What plans with these stages cost at least.
  std::map<std::vector<unsigned>, double> stageBounds;
  /// The most work for which tables of some stages were too large: those of
  /// other stages hardly differ.
  uint64_t workTooLittle = 0;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_PHASES_REFINE_H
