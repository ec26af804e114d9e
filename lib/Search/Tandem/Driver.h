//===- Driver.h - driver of the search --------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Forms come from the additive relaxation under several weights, stages from
// the dynamic program, better plans from small changes and, where costs add up,
// from sums. The bound comes from the relaxation of the whole problem; small
// problems are then searched exactly below the plan that was found.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_DRIVER_H
#define TANDEM_LIB_SEARCH_TANDEM_DRIVER_H

#include "Tandem/Phases/Bound.h"
#include "Tandem/Phases/Local.h"
#include "Tandem/Phases/Refine.h"
#include "Tandem/Phases/UntimedSearch.h"

namespace tandem::search {

class Driver : public ProblemSearch {
public:
  /// Ends when `end` says so, which the caller made from the options.
  Driver(const cost::SearchProblem &problem, const SearchOptions &options,
         SearchEnd &end);

  SearchResult run() override;
  PlanPool::Record runBriefly() override;
  std::optional<cost::Plan> refine(const cost::Plan &plan,
                                   uint64_t &work) override;
  bool addsUp() const override { return context.addsUp; }

private:
  bool isImpossible(SearchResult &result) const;
  std::string describeNeed() const;
  double getLeastComputation() const;
  void offerStarts(PlanPool &to) const;
  void searchByGuides();
  void takeUntimed(const PlanPool::Record &record);
  void improveStart(PlanPool::Record started);
  void searchExactly(uint64_t maxWork);
  void anneal();
  void explainNoPlan(SearchResult &result) const;
  SearchResult finish();

  const cost::SearchProblem &problem;
  SearchContext context;
  PlanPool &pool;
  GuidedSearch guides;
  BoundSearch bound;
  LocalSearch local;
  UntimedSearch untimed;
  StageRefiner refiner;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_DRIVER_H
