//===- TandemMemory.cpp - plans where memory is short ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bytes get a price, and under each price the forms are searched that suit it
// best. The price whose plan is the cheapest one is neither the lowest one
// whose plan fits, which may have no room left for copies that are kept, nor
// that of the highest bound (docs/rationale/search.md, *Memory*).
//
//===----------------------------------------------------------------------===//

#include "TandemDriver.h"
#include <algorithm>
#include <cmath>

using namespace tandem::cost;
using namespace tandem::search;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Prices that are tried under the bound's weights, and for each guide: as many
/// as sweeps of the folded problem that look at so many numbers.
constexpr unsigned kLeastBoundRounds = 6, kMostBoundRounds = 12;
constexpr unsigned kLeastGuideRounds = 2, kMostGuideRounds = 5;
constexpr uint64_t kRoundWork = 30'000'000;
/// Numbers that the sweeps under one price may look at.
constexpr uint64_t kPriceWork = 130'000'000;
/// The first price: that at which this share of the dearest plan's seconds
/// would pay for all memory. Prices that differ by less than a share of
/// themselves are one.
constexpr double kFirstShare = 0.05, kGuideShare = 0.03, kPriceStep = 4,
                 kNearPrice = 1.15;
/// The price to try next: from one that is too low upwards, and around the one
/// whose plan costs least. 0 if all that is left lies next to one that was
/// tried. `trials` rise.
static double getNextPrice(const std::vector<PriceTrial> &trials) {
  auto best = std::min_element(trials.begin(), trials.end(),
                               [](const PriceTrial &a, const PriceTrial &b) {
                                 return a.seconds < b.seconds;
                               });
  if (best->seconds == kInfinity)
    return trials.back().price * kPriceStep;
  if (best == trials.begin())
    return best->price / kPriceStep;
  if (best + 1 == trials.end())
    return best->price * kPriceStep;
  double below = best->price / (best - 1)->price;
  double above = (best + 1)->price / best->price;
  if (std::max(below, above) < kNearPrice)
    return 0;
  return below > above ? best->price / std::sqrt(below)
                       : best->price * std::sqrt(above);
}

/// Searches forms under the price, appends what comes of it, and keeps the
/// trials sorted.
void Driver::tryPrice(Weights weights, double price) {
  PriceTrial trial;
  trial.price = weights.memory = price;
  graph.setWeights(weights);
  coarse.reset();
  unsigned sweeps = getNumSweeps(kPriceWork, coarse, 8, 32);
  for (unsigned i = 0; i < sweeps; ++i)
    coarse.sweep();
  trial.bound =
      coarse.getBound() - price * static_cast<double>(problem.memoryLimit);
  std::vector<unsigned> values = coarse.round();
  getRelaxation().descend(values, 4);
  trial.seconds = pool.offer(getSignatures(values));
  if (pool.offered.plan)
    leaders.push_back(pool.offered);
  auto place = std::upper_bound(trials.begin(), trials.end(), price,
                                [](double value, const PriceTrial &other) {
                                  return value < other.price;
                                });
  trials.insert(place, trial);
}

/// Tries prices under the bound's weights: what they lead to are plans, and
/// bounds that say which price `raiseBound` is to begin with.
void Driver::searchPrices(double unit) {
  Weights weights = getBoundWeights(problem, 1, 1);
  double price = kFirstShare * unit;
  unsigned rounds = getNumSweeps(kRoundWork, getRelaxation(), kLeastBoundRounds,
                                 kMostBoundRounds);
  for (unsigned round = 0; round < rounds && price > 0; ++round) {
    if (pool.best && !proceeds(0.3))
      return;
    tryPrice(weights, price);
    price = getNextPrice(trials);
  }
  if (trials.empty())
    return;
  auto highest = std::max_element(trials.begin(), trials.end(),
                                  [](const PriceTrial &a, const PriceTrial &b) {
                                    return a.bound < b.bound;
                                  });
  memoryPrice = highest->price;
}

/// The same for weights that lead to other plans: the lowest price whose plan
/// fits.
void Driver::searchGuidePrices(Weights weights, double unit, unsigned rounds) {
  double low = 1e-3, high = kInfinity, factor = kGuideShare;
  for (unsigned round = 0; round < rounds; ++round) {
    if (pool.best && !proceeds(0.4))
      return;
    weights.memory = factor * unit;
    (searchForms(weights) < kInfinity ? high : low) = factor;
    factor = high < kInfinity ? std::sqrt(low * high) : 10 * factor;
  }
}

/// Not where the best plan of all that were tried fits anyway.
void Driver::fitMemory() {
  if (problem.memoryLimit == std::numeric_limits<int64_t>::max() ||
      (pool.best && pool.leastSeconds >= pool.seconds * (1 - kTolerance)))
    return;
  double scale = 0;
  for (const PlanTotals &totals : pool.totals)
    scale = std::max(scale, totals.getSum());
  double unit = (scale + 1e-6) / static_cast<double>(problem.memoryLimit + 1);
  if (facts.does(Mechanism::BoundPrices))
    searchPrices(unit);
  unsigned rounds = getNumSweeps(kRoundWork, getRelaxation(), kLeastGuideRounds,
                                 kMostGuideRounds);
  std::vector<Weights> guides = getGuides();
  // With one strand there are no more than two that differ.
  size_t numGuides = facts.numStrands == 1 ? 3 : 4;
  for (size_t i = 1; facts.does(Mechanism::GuidePrices) &&
                     i < std::min(guides.size(), numGuides);
       ++i)
    searchGuidePrices(guides[i], unit, rounds);
  trials.clear();
}
