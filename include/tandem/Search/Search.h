//===- Search.h - algorithms from a problem to a plan -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each algorithm is a function from a problem to a plan. Same problem and
// options, same plan to the byte. A plan that is returned passes `verifyPlan`.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SEARCH_SEARCH_H
#define TANDEM_SEARCH_SEARCH_H

#include "tandem/Cost/Cost.h"
#include "tandem/Search/Mechanism.h"
#include <functional>

namespace tandem::search {

struct SearchOptions {
  /// Seconds after which the best plan so far is returned, with its gap. 0: no
  /// limit. Plans are reproducible only without one.
  double timeLimit = 0;
  /// What cannot be cheaper by more than this share of the cost may be left
  /// out; 0 asks for the optimum.
  double gap = 0;
  /// The division into stages that is given (`ilp`); empty: one stage per
  /// operator where costs add up.
  std::vector<unsigned> stageEnds;
  /// Plans to be no worse than: decisions of presets or of an earlier search.
  std::vector<cost::Plan> starts;
  /// What `tandem` does without: for measuring what that is worth.
  MechanismSet without;
  /// Called now and then with the share of the work done (0 to 1), the best
  /// cost and the lower bound so far; returning false interrupts.
  std::function<bool(double done, double best, double bound)> progress;
};

struct SearchResult {
  /// Nothing if no plan was found.
  std::optional<cost::Plan> plan;
  /// Without a plan: whether it is proven that there is none.
  bool isInfeasible = false;
  /// One line: why there is no plan, by how many bytes the limit is exceeded.
  std::string error;
  /// Without a plan: whether the limit of memory is the reason.
  bool lacksMemory = false;
  /// Then, of a device, what every plan holds at least, and the peak of the
  /// smallest plan that was found; 0 where that is not known.
  int64_t leastBytes = 0, smallestPeak = 0; // B
  /// And that smallest plan, where the algorithm has it.
  std::optional<cost::Plan> smallest;
  /// A bound for all plans with the stages that were given, or one stage per
  /// operator (`ilp`): the plan is the cheapest with its stages if it equals
  /// the plan's cost.
  std::optional<double> stagesBound; // s
  /// The same of those plans that have signatures over time only in stages in
  /// which the plan to begin with has some.
  std::optional<double> strandsBound; // s
  /// Plans, and labels (`hidup`) or nodes, that were looked at.
  uint64_t numVisited = 0;
};

/// The dynamic programming of HiDup, section 5: forward graph, one space axis,
/// two strands, the `hidup-*` accountings.
SearchResult searchHidup(const cost::SearchProblem &problem,
                         const SearchOptions &options);
/// The planner of Oases, section 4: a chain of blocks, the accounting `oases`.
SearchResult searchOases(const cost::SearchProblem &problem,
                         const SearchOptions &options);
/// Whether `searchTandem` is the dynamic programming of HiDup, which limits its
/// own work: stages run passes (Accounting.h).
bool isSearchedByStages(const cost::SearchProblem &problem);
/// Tandem's own search: any accounting (docs/rationale/search.md).
SearchResult searchTandem(const cost::SearchProblem &problem,
                          const SearchOptions &options);
/// An integer program for HiGHS, any accounting: all of the problem without
/// duplex, the forms for given stages with it.
SearchResult searchIlp(const cost::SearchProblem &problem,
                       const SearchOptions &options);
/// Every finished plan, one by one, by `cost`: for small problems. Fails if
/// there are more than 10^7.
SearchResult searchExhaustive(const cost::SearchProblem &problem,
                              const SearchOptions &options);

using Algorithm = SearchResult (*)(const cost::SearchProblem &,
                                   const SearchOptions &);
/// `hidup`, `tandem`, `ilp` or `exhaustive`; null for other names.
Algorithm findAlgorithm(std::string_view name);

/// Whether the plan was made for this problem, at any prices; else one line in
/// `error`.
bool isForProblem(const cost::SearchProblem &problem, const cost::Plan &plan,
                  std::string &error);

/// Recomputes legality, changes, cost and peak by `cost` alone. True if the
/// plan is what it says; else one line in `error`.
bool verifyPlan(const cost::SearchProblem &problem, const cost::Plan &plan,
                std::string &error);

} // namespace tandem::search

#endif // TANDEM_SEARCH_SEARCH_H
