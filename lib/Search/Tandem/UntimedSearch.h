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

#ifndef TANDEM_LIB_SEARCH_TANDEM_UNTIMEDSEARCH_H
#define TANDEM_LIB_SEARCH_TANDEM_UNTIMEDSEARCH_H

#include "Tandem/Context.h"
#include "Tandem/Limits.h"
#include "Tandem/Problem/Untimed.h"
#include <memory>

namespace tandem::search {

class Driver;

class UntimedSearch {
public:
  explicit UntimedSearch(SearchContext &context);
  ~UntimedSearch();

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
  PlanPool::Record search();

  SearchContext &context;
  std::optional<UntimedProblem> untimed;
  SearchOptions options;
  std::optional<SearchEnd> end;
  /// Whether it is on the other thread, which leaves who watches alone.
  bool isApart = false;
  std::unique_ptr<Driver> driver;
  /// What is left for plans that the whole problem leads to.
  uint64_t work = kUntimedWork;
  std::future<PlanPool::Record> found;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_UNTIMEDSEARCH_H
