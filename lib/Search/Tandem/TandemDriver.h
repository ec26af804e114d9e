//===- TandemDriver.h - the way from a problem to its plan ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Forms come from the additive relaxation under several weights, stages from
// the dynamic program, a better plan from changes of single forms in all layers
// at once. The bound comes from the relaxation of the whole problem; small
// problems are then searched exactly below the plan that was found.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEMDRIVER_H
#define TANDEM_LIB_SEARCH_TANDEMDRIVER_H

#include "../SearchEnd.h"
#include "TandemImprove.h"
#include "TandemLabels.h"
#include "TandemPool.h"
#include "TandemRelaxation.h"
#include "TandemSumSearch.h"
#include "TandemUntimed.h"
#include <future>
#include <map>

namespace tandem::search {

/// Larger problems are searched but briefly without their time axis.
constexpr unsigned kMaxUntimed = 1200;

/// Problems of up to this many operators are searched exactly.
constexpr unsigned kMaxExact = 120;

/// Numbers that searches for the cheapest forms of given stages look at (about
/// 10^9 in a second): for the best plan; with what is left for what random
/// changes make of that; and of that what is left for the stages that this ends
/// with.
constexpr uint64_t kStagesWork = 3'500'000'000, kLastStagesWork = 5'000'000'000,
                   kKeptStagesWork = 1'000'000'000;

/// Plans of larger problems are taken as small changes leave them; ties are
/// settled only where the optimum is proven.
constexpr size_t kMaxRefined = 1000;

/// A plan within this share of the bound is optimal.
constexpr double kTolerance = 1e-9;

/// What a price of bytes leads to.
struct PriceTrial {
  double price = 0; // s/B
  /// Of the folded problem, and of the plan; infinity if it is too large.
  double bound = 0, seconds = 0;
};

/// Where the ascent of the whole problem's bound ends.
struct BoundGoal {
  /// The relaxed cost of some values: no bound is higher.
  double values = 0;
  /// What the price of memory takes off, and the bound that closes the gap, s.
  double held = 0, closed = 0;
};

class Driver {
public:
  /// Ends when `end` says so, which the caller made from the options.
  Driver(const cost::SearchProblem &problem, const SearchOptions &options,
         SearchEnd &end);

  SearchResult run();
  /// Plans of guides and of the cheapest forms; no bound.
  PlanPool::Record runBriefly();

private:
  bool proceeds(double done);
  /// For another thread, which Ctrl-C and limits of time reach by this one.
  template <typename T> void wait(const std::future<T> &result) {
    while (result.wait_for(std::chrono::milliseconds(50)) ==
           std::future_status::timeout)
      proceeds(0.8);
  }
  bool isClosed() const;
  std::vector<Weights> getGuides() const;
  static unsigned getNumSweeps(uint64_t budget, const Relaxation &relaxation,
                               unsigned least, unsigned most);
  double searchForms(const Weights &weights);
  Weights getBestWeights() const;
  double getLeastComputation() const;
  void raiseBound();
  void raiseByPrices(Weights weights);
  double ascend(Relaxation &relaxation, const Weights &weights,
                uint64_t maxWork, unsigned maxSweeps);
  Relaxation &getProbe();
  double findMemoryPrice();
  double getSlow() const;
  double offerForms(Relaxation &relaxation, double below);
  void searchBoundForms(const Weights &weights);
  void bound(const Weights &weights);
  double getWholeBound(const FactorGraph &priced, Relaxation &whole,
                       const BoundGoal &goal) const;
  void startBound(const Weights &weights, const BoundGoal &goal);
  void joinBound();
  //--- TandemMemory.cpp
  void tryPrice(Weights weights, double price);
  void searchPrices(double unit);
  void searchGuidePrices(Weights weights, double unit, unsigned rounds);
  void fitMemory();
  //--- TandemMoves.cpp
  uint64_t getSmallWork(uint64_t share) const;
  void descend(const cost::Plan &plan, bool isCareful, uint64_t &work);
  void improve(uint64_t work);
  PlanPool::Record anneal(PlanPool::Record from, double heat, uint64_t work);
  void selectLeaders(size_t count);
  void annealAll(uint64_t work);
  void improveFrom(const cost::Plan &plan, uint64_t work);
  void startUntimed();
  PlanPool::Record joinUntimed();
  bool tryUntimed();
  bool tryTies();
  void refine(uint64_t &work);
  bool refineAnnealed(PlanPool::Record &last, bool isAgain, uint64_t &work);
  void refineInRounds();
  void settleStages();
  void makeFit();
  bool hasTooLarge() const;
  void shrinkCheapest();
  void offerStarts(PlanPool &to) const;
  void improveStart(PlanPool::Record started);
  //--- TandemAddedUp.cpp
  bool isSum() const;
  bool findsForms() const;
  uint64_t getSumWork(uint64_t work) const;
  bool hasExactForms() const;
  void searchAddedUp();
  bool tryStages(const std::vector<unsigned> &stageEnds, uint64_t share,
                 double worth, uint64_t &work);
  std::vector<unsigned> getDivision();
  bool joinStages(unsigned &op, uint64_t &work);
  bool tryCheapestForms(uint64_t &work);
  //--- TandemDriver.cpp
  std::vector<unsigned>
  getSignatures(const std::vector<unsigned> &values) const;
  /// For messages; changes are those of `repeats`.
  Relaxation &getRelaxation() { return unfolded ? *unfolded : folded; }
  void searchByGuides();
  bool makePriced();
  void searchByLabels(LabelLimits limits);
  void searchExactly();
  bool proveInfeasible(SearchResult &result) const;
  std::string describeNeed() const;
  SearchResult finish();

  const cost::SearchProblem &problem;
  const SearchOptions &options;
  SearchEnd &end;
  Facts facts;
  cost::ChangeTable table;
  FactorGraph graph;
  /// Whether plans are searched as sums (TandemSum.h).
  const bool addsUp;
  std::vector<unsigned> repeats;
  /// Folded where surroundings are alike within several tensors, and within
  /// one.
  Relaxation folded, coarse;
  /// Where folding saves little, and variables that differ would share their
  /// messages.
  std::optional<Relaxation> unfolded;
  PlanPool pool;
  PlanImprover improver;
  /// The best plans of the guides.
  std::vector<PlanPool::Record> leaders;
  /// The problem without its time axis, and the search for its plans: on a
  /// thread of its own until its first one is asked for. Neither search sees
  /// what the other finds until then.
  struct UntimedSearch {
    UntimedProblem problem;
    SearchOptions options;
    std::optional<SearchEnd> end;
    /// Whether it is on the other thread, which leaves who watches alone.
    bool isApart = false;
    std::unique_ptr<Driver> driver;
    std::future<PlanPool::Record> found;
  };
  std::unique_ptr<UntimedSearch> untimedSearch;
  /// Of the last search for the forms of given stages; and what plans with
  /// these cost at least.
  SumTrace trace;
  std::map<std::vector<unsigned>, double> stageBounds;
  /// Whether forms are searched for the best plan's stages without cuts that
  /// gain nothing: with fewer stages others are within reach, and sooner.
  bool isCoarse = false;
  double lowerBound = 0;
  /// Seconds per byte under which plans fit; 0 where memory is no matter.
  double memoryPrice = 0;
  /// The lowest price first.
  std::vector<PriceTrial> trials;
  /// Of searches by labels; made for the first one.
  std::unique_ptr<PricedRelaxations> priced;
  uint64_t numLabels = 0;
  bool isProven = false;
  /// The bound of a large problem, which rises on a thread of its own while
  /// plans are improved: neither sees what the other finds.
  std::future<double> rising;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEMDRIVER_H
