//===- Context.h - shared state of a search ---------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The problem with what follows from it, when to end, the plans so far, and
// what is proven. Of one search and one thread.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_PHASES_CONTEXT_H
#define TANDEM_LIB_SEARCH_TANDEM_PHASES_CONTEXT_H

#include "Tandem/Relaxation/Factors.h"
#include "Tandem/Stages/Pool.h"
#include "tandem/Search/SearchEnd.h"
#include <future>

namespace tandem::search {

struct SearchContext {
  SearchContext(const cost::SearchProblem &problem,
                const SearchOptions &options, SearchEnd &end);

  bool does(Mechanism mechanism) const { return facts.does(mechanism); }
  size_t getNumOperators() const { return problem.operators.size(); }

  /// Tells who watches that this share is done; false if the search has to end.
  bool proceeds(double done) {
    return end.proceeds(done, pool.seconds, lowerBound);
  }
  bool isOver() const { return end.isOver(); }
  /// Whether the best plan is good enough.
  bool isClosed() const;
  /// Whether better plans are of interest, and there is time for them.
  bool seeksMore() const { return !isOver() && !isClosed(); }
  /// Waits for another thread, which Ctrl-C and limits of time reach by this
  /// one.
  template <typename T> void wait(const std::future<T> &result) {
    while (result.wait_for(std::chrono::milliseconds(50)) ==
           std::future_status::timeout)
      proceeds(0.8);
  }
  /// Takes note of what no plan costs less than.
  void raise(double bound) { lowerBound = std::max(lowerBound, bound); }

  /// Another plan to begin random changes with, if there is one.
  void addLeader(PlanPool::Record leader) {
    if (leader.plan && does(Mechanism::Leaders))
      leaders.push_back(std::move(leader));
  }

  /// Whether the cheapest forms are found directly: guides need not come near.
  bool findsForms() const;
  /// Signatures of all operators, from those of the graph's variables.
  std::vector<unsigned>
  getSignatures(const std::vector<unsigned> &values) const;

  const cost::SearchProblem &problem;
  const SearchOptions &options;
  SearchEnd &end;
  Facts facts;
  cost::ChangeTable table;
  FactorGraph graph;
  /// Variables that move together (Tandem/Relaxation/Fold.h).
  std::vector<unsigned> repeats;
  /// Whether plans are searched as sums (Tandem/Sums/Sum.h).
  const bool addsUp;
  PlanPool pool;
  /// The best plans of the guides: they lie in different valleys.
  std::vector<PlanPool::Record> leaders;
  double lowerBound = 0;
  /// Whether the best plan is the optimum, or that there is none.
  bool isProven = false;
  /// Nodes that were looked at.
  uint64_t numNodes = 0;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_PHASES_CONTEXT_H
