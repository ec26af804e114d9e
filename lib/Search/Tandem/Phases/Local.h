//===- Local.h - local search -----------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Small changes with given stages, and new stages for given forms, in turn;
// random changes, which leave a valley. Where nothing fits, the same lowers
// what is held.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_PHASES_LOCAL_H
#define TANDEM_LIB_SEARCH_TANDEM_PHASES_LOCAL_H

#include "Tandem/Improve/Improve.h"
#include "Tandem/Improve/SourceSearch.h"
#include "Tandem/Phases/Context.h"

namespace tandem::search {

class LocalSearch {
public:
  explicit LocalSearch(SearchContext &context);

  /// Descends from the best plan, with a share, one in so many, of what small
  /// changes may look at.
  void improve(uint64_t share);
  /// Improves what comes from the plan, apart from the best one so far.
  void improveFrom(const cost::Plan &plan);
  /// Random changes of the best plan and the leaders, and a descent behind
  /// them.
  void anneal();

  /// Whether plans that are too large are worth being made smaller; in large
  /// problems small changes do not get there.
  bool hasTooLarge() const;
  /// Where the cheapest plan is too large, lowers what it holds too much,
  /// tensor by tensor: prices of bytes decide for all that are alike at once.
  void shrinkCheapest();
  /// Whether the backward pass may make values again, and has to.
  bool seeksSources() const;
  /// Where the backward pass may make values again: which ones, for the forms
  /// of the cheapest plan and of the smallest one, which may be too large, and
  /// of the best one that fits.
  void searchSources();
  /// Looks once more, for the forms of the best plan.
  void improveSources();
  /// Where no plan fits, lowers what the smallest one holds too much.
  void makeFit();

private:
  uint64_t getWork(uint64_t share) const;
  void descend(const cost::Plan &plan, bool isCareful, uint64_t &work);
  PlanPool::Record change(PlanPool::Record from, double heat, uint64_t work);
  void searchSourcesOf(const std::optional<cost::Plan> &plan, bool isBrief);
  void selectLeaders(size_t count);
  void annealAll(uint64_t work);

  SearchContext &context;
  const cost::SearchProblem &problem;
  PlanPool &pool;
  std::vector<PlanPool::Record> &leaders;
  PlanImprover improver;
  SourceSearch sources;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_PHASES_LOCAL_H
