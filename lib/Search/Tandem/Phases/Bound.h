//===- Bound.h - lower bound of all plans -----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Raises the lower bound of a search: under the weights that the plans so far
// suggest (Tandem/Relaxation/Weights.cpp), and, where memory is short, under a
// price v of bytes: what is resident, and what is alive where most is
// (Tandem/Problem/Held.h), is at most the limit, so the bound is what messages
// find less v times the limit. Forms that suit these weights are plans, too.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_PHASES_BOUND_H
#define TANDEM_LIB_SEARCH_TANDEM_PHASES_BOUND_H

#include "Tandem/Phases/Guides.h"

namespace tandem::search {

class BoundSearch {
public:
  BoundSearch(SearchContext &context, GuidedSearch &guides);

  /// Raises the bound. That of a large problem rises on a thread of its own
  /// from then on, while plans are improved: neither sees what the other finds.
  void raise();
  /// Waits for that.
  void join();
  /// The forms that suit the bound's weights, without the whole problem's
  /// bound; the best ones, or those without overlap and with the guides' price
  /// of memory.
  void searchBestForms() { searchForms(getBestWeights()); }
  void searchSerialForms();
  /// The bound's weights under which the plans so far cost the most.
  Weights getBestWeights() const;

private:
  /// Where the ascent of the whole problem's bound ends.
  struct Goal {
    /// The relaxed cost of some values: no bound is higher.
    double values = 0;
    /// What the price of memory takes off, and the bound that closes the gap,
    /// s.
    double held = 0, closed = 0;
  };
  double getSlow() const;
  double ascend(Relaxation &relaxation, const Weights &weights, uint64_t work,
                unsigned maxSweeps);
  void searchForms(const Weights &weights);
  double getWholeBound(const FactorGraph &priced, Relaxation &whole,
                       const Goal &goal) const;
  void bound(const Weights &weights);
  void follow(const Weights &weights);
  void start(const Goal &goal);
  double findMemoryPrice();
  void raiseByPrices(Weights weights);

  SearchContext &context;
  GuidedSearch &guides;
  const cost::SearchProblem &problem;
  const Facts &facts;
  PlanPool &pool;
  std::future<double> rising;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_PHASES_BOUND_H
