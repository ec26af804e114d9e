//===- UntimedSearch.h - a search without a time axis -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Looks for the plan of the problem without its time axis
// (Tandem/Problem/Untimed.h): so splitting over time never makes a plan dearer,
// and small changes lead from there to other plans than from those of the
// guides. On a thread of its own until its plan is asked for: neither search
// sees what the other finds until then. Not beside the search of a small
// problem: whoever ends one after so many questions gets the same plan every
// time.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_PHASES_UNTIMEDSEARCH_H
#define TANDEM_LIB_SEARCH_TANDEM_PHASES_UNTIMEDSEARCH_H

#include "Tandem/Limits.h"
#include "Tandem/Phases/Context.h"
#include "Tandem/Problem/Untimed.h"
#include <functional>
#include <memory>

namespace tandem::search {

/// The whole search of a problem, as seen by a phase that searches another
/// problem by it.
class ProblemSearch {
public:
  virtual ~ProblemSearch() = default;

  virtual SearchResult run() = 0;
  /// Plans of guides and of the cheapest forms; no bound.
  virtual PlanPool::Record runBriefly() = 0;
  /// Behind either: what better cuts and cheaper forms make of a plan, with the
  /// work that is left.
  virtual std::optional<cost::Plan> refine(const cost::Plan &plan,
                                           uint64_t &work) = 0;
  virtual bool addsUp() const = 0;
};

/// Makes a search that ends when `end` says so. The problem, the options and
/// `end` outlive it.
using MakeSearch = std::function<std::unique_ptr<ProblemSearch>(
    const cost::SearchProblem &problem, const SearchOptions &options,
    SearchEnd &end)>;

class UntimedSearch {
public:
  UntimedSearch(SearchContext &context, MakeSearch makeSearch);

  /// Begins, if there is such a problem.
  void start();
  /// The plan of the whole problem that it found; nothing if that was asked
  /// before.
  PlanPool::Record join();

  //--- Behind `join`.
  /// Where the best plan splits nothing over time, offers what the problem
  /// without its time axis makes of it; true if that is better.
  bool refine();
  /// Whether the plan is one of a problem whose costs add up.
  bool addsUpFor(const cost::Plan &plan) const;

private:
  PlanPool::Record findPlan();

  SearchContext &context;
  MakeSearch makeSearch;
  std::optional<UntimedProblem> untimed;
  SearchOptions options;
  std::optional<SearchEnd> end;
  /// Whether it is on the other thread, which leaves who watches alone.
  bool isApart = false;
  std::unique_ptr<ProblemSearch> search;
  /// What is left for plans that the whole problem leads to.
  uint64_t work = kUntimedWork;
  std::future<PlanPool::Record> found;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_PHASES_UNTIMEDSEARCH_H
