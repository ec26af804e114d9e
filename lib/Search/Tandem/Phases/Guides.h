//===- Guides.h - forms under several prices --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The forms that an additive cost likes best are a start for everything else.
// No weights say what overlaps, so several are tried, each a guide to another
// valley. Where memory is short, bytes get a price, and under each price the
// forms are searched that suit it best. The price whose plan is the cheapest
// one is neither the lowest one whose plan fits, which may have no room left
// for copies that are kept, nor that of the highest bound.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_PHASES_GUIDES_H
#define TANDEM_LIB_SEARCH_TANDEM_PHASES_GUIDES_H

#include "Tandem/Phases/Context.h"
#include "Tandem/Relaxation/Relaxation.h"

namespace tandem::search {

class GuidedSearch {
public:
  explicit GuidedSearch(SearchContext &context);

  /// Offers plans under all guides.
  void run();
  /// Where these do not fit, offers plans under prices of memory.
  void fitMemory();

  /// Offers the forms that messages suggest, if they cost less than so many
  /// weighted seconds. Returns what they cost.
  double offer(Relaxation &relaxation, double below);

  /// For messages; changes are those of the context's repeats.
  Relaxation &getRelaxation() { return unfolded ? *unfolded : folded; }
  /// What prices are compared by: of large problems the one that is folded
  /// most, which says the same.
  Relaxation &getProbe() {
    return context.facts.isLarge() ? coarse : getRelaxation();
  }
  /// So many that they look at `work` numbers, between `least` and `most`: few
  /// sweeps of large problems, many of small ones.
  static unsigned getNumSweeps(uint64_t work, const Relaxation &relaxation,
                               unsigned least, unsigned most);

  /// The price, s/B, under which a bound was highest; 0 where memory is no
  /// matter.
  double memoryPrice = 0;

private:
  /// What a price of bytes leads to.
  struct Trial {
    double price = 0; // s/B
    /// Of the folded problem, and of the plan; infinity if it is too large.
    double bound = 0, seconds = 0;
  };
  std::vector<Weights> getGuides() const;
  void search(const Weights &weights);
  static double getNextPrice(const std::vector<Trial> &trials);
  Trial tryPrice(Weights weights, double price);
  void searchPrices(double unit);

  SearchContext &context;
  const cost::SearchProblem &problem;
  const Facts &facts;
  FactorGraph &graph;
  PlanPool &pool;
  /// Folded where surroundings are alike within several tensors, and within
  /// one.
  Relaxation folded, coarse;
  /// Where folding saves little, and variables that differ would share their
  /// messages.
  std::optional<Relaxation> unfolded;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_PHASES_GUIDES_H
