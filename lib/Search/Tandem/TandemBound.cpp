//===- TandemBound.cpp - what no plan costs less than ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Raises the driver's lower bound (docs/rationale/search.md, *Bound*): under
// the weights that the plans so far suggest, and, where memory is short, under
// a price of bytes.
//
//===----------------------------------------------------------------------===//

#include "TandemDriver.h"
#include "TandemFold.h"
#include <algorithm>
#include <memory>

using namespace tandem::cost;
using namespace tandem::search;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Numbers that the sweeps of the folded problem, of the whole one, and of the
/// folded one under a price that is tried, may look at.
constexpr uint64_t kFoldedWork = 2'000'000'000, kBoundWork = 4'000'000'000,
                   kPriceWork = 130'000'000;
/// Sweeps that raise the bound by less than this share are too many.
constexpr double kSlow = 1e-3;
/// Prices of memory that are tried, and sweeps for each of them.
constexpr unsigned kMemoryRounds = 5, kPriceSweeps = 16;
/// Sweeps of the folded problem, and then of the whole one, for a bound.
constexpr unsigned kMaxSweeps = 80, kMaxWholeSweeps = 24;
/// More of them if they take little.
constexpr uint64_t kQuickWork = 100'000'000;
constexpr unsigned kMaxQuickSweeps = 400;
/// The larger of two sums is at least half of both: where plans cost so many
/// times the bound of strands, the weights are at fault.
constexpr double kFarGap = 2;
/// Weights that are tried for the bound.
constexpr unsigned kMaxBounds = 5;

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

static double getPrice(const Weights &weights, const PlanTotals &totals) {
  return weights.once * totals.once + weights.alone * totals.alone +
         weights.split * totals.split +
         weights.collectiveOnce * totals.collectiveOnce +
         weights.collectiveSplit * totals.collectiveSplit +
         weights.joined * totals.joined + weights.waiting * totals.waiting;
}

/// The bound's weights under which the plans so far cost the most.
Weights Driver::getBestWeights() const {
  Weights best = getBoundWeights(problem, 1, 1);
  double bestBound = -kInfinity;
  constexpr int kSteps = 20;
  // The first weight is no larger than the second one: the distances of
  // `FactorGraph` rest on it.
  for (int second = 0; second <= kSteps; ++second)
    for (int first = 0; first <= second; ++first) {
      Weights weights = getBoundWeights(problem, double(first) / kSteps,
                                        double(second) / kSteps);
      double least = kInfinity;
      for (const PlanTotals &totals : pool.totals)
        least = std::min(least, getPrice(weights, totals));
      if (least >= bestBound) {
        best = weights;
        bestBound = least;
      }
    }
  return best;
}

//===----------------------------------------------------------------------===//
// Bound
//===----------------------------------------------------------------------===//

/// Small problems can afford slow sweeps.
double Driver::getSlow() const { return facts.isLarge() ? kSlow : 1e-6; }

/// Raises the folded bound until that becomes slow; returns it.
double Driver::ascend(Relaxation &relaxation, const Weights &weights,
                      uint64_t maxWork, unsigned maxSweeps) {
  graph.setWeights(weights);
  relaxation.reset();
  unsigned sweeps = getNumSweeps(maxWork, relaxation, 6, maxSweeps);
  double value = -kInfinity;
  for (unsigned i = 0; i < sweeps; ++i) {
    relaxation.sweep();
    if (i % 8 != 7)
      continue;
    double now = relaxation.getBound();
    if (now - value < getSlow() * std::abs(now) || !proceeds(0.7))
      return std::max(now, value);
    value = now;
  }
  return relaxation.getBound();
}

/// What weights are compared by: of large problems the one that is folded most,
/// which takes a third of the time and says the same.
Relaxation &Driver::getProbe() {
  return facts.isLarge() ? coarse : getRelaxation();
}

/// The highest bound of some sweeps of the whole problem. Looks at nothing that
/// changes meanwhile but at whether the search was stopped.
double Driver::getWholeBound(const FactorGraph &priced, Relaxation &whole,
                             const BoundGoal &goal) const {
  // Who names a gap is ready to wait for it.
  double slow = options.gap > 0 ? 1e-5 : 0.5 * getSlow();
  unsigned sweeps =
      std::max(getNumSweeps(kBoundWork, whole, 1, kMaxWholeSweeps),
               getNumSweeps(kQuickWork, whole, 1, kMaxQuickSweeps));
  if (options.gap > 0)
    sweeps *= 8;
  double best = -kInfinity, before = -kInfinity;
  for (unsigned i = 0; i < sweeps && !end.isOver(); ++i) {
    whole.sweep();
    double value = whole.getBound() - 1e-13 * priced.forbidden;
    best = std::max(best, value - goal.held);
    if (best >= goal.closed || value - before < slow * goal.values ||
        goal.values - value < 1e-6 * goal.values)
      break;
    before = value;
  }
  return best;
}

/// Offers the forms that messages suggest, if they cost less than so many
/// weighted seconds. Returns what they cost.
double Driver::offerForms(Relaxation &relaxation, double below) {
  std::vector<unsigned> values = relaxation.round();
  relaxation.descend(values, 4);
  double relaxed = relaxation.getCost(values);
  if (relaxed < below)
    pool.offer(getSignatures(values));
  return relaxed;
}

/// The forms that suit the bound's weights, without the whole problem's bound.
void Driver::searchBoundForms(const Weights &weights) {
  if (end.isOver() || !pool.best)
    return;
  ascend(getRelaxation(), weights, kFoldedWork, kMaxSweeps);
  offerForms(getRelaxation(), kInfinity);
}

/// Raises the bound of the whole problem from where the folded one is.
void Driver::bound(const Weights &weights) {
  BoundGoal goal;
  goal.values =
      offerForms(getRelaxation(),
                 facts.does(Mechanism::BoundForms) ? kInfinity : -kInfinity);
  if (weights.memory > 0)
    goal.held = weights.memory * static_cast<double>(problem.memoryLimit);
  goal.closed =
      pool.seconds / (1 + std::max(options.gap, kTolerance)) * (1 + 1e-12);
  joinBound();
  if (facts.isLarge() && options.gap == 0) {
    startBound(weights, goal);
    return;
  }
  Relaxation whole(graph, getUnfolded(graph));
  whole.adopt(getRelaxation());
  lowerBound = std::max(lowerBound, getWholeBound(graph, whole, goal));
  if (!facts.isLarge() && !findsForms())
    offerForms(whole, goal.values);
  proceeds(0.8);
}

/// Messages and prices are copied: this thread goes on with others.
void Driver::startBound(const Weights &weights, const BoundGoal &goal) {
  auto priced = std::make_unique<FactorGraph>(graph);
  auto whole = std::make_unique<Relaxation>(*priced, getUnfolded(graph));
  whole->adopt(getRelaxation());
  rising =
      std::async(std::launch::async, [this, goal, priced = std::move(priced),
                                      whole = std::move(whole)] {
        return getWholeBound(*priced, *whole, goal);
      });
}

void Driver::joinBound() {
  if (!rising.valid())
    return;
  wait(rising);
  lowerBound = std::max(lowerBound, rising.get());
}

/// Every second of computation lies in a slot that is no shorter: a bound for
/// searches that end before a better one is known.
double Driver::getLeastComputation() const {
  double sum = 0;
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    if (facts.isArgument(op))
      continue;
    double least = kInfinity;
    for (const Signature &signature : problem.getSignatures(op)) {
      double strands = facts.isPerStrand(signature)
                           ? static_cast<double>(facts.numStrands)
                           : 1;
      least = std::min(least, strands * signature.seconds);
    }
    sum += least;
  }
  return sum;
}

/// The price of a byte that lifts the bound most: it is concave in the price.
double Driver::findMemoryPrice() {
  double limit = static_cast<double>(problem.memoryLimit);
  Weights weights = getBoundWeights(problem, 1, 1);
  auto getValue = [&] {
    return ascend(getProbe(), weights, kPriceWork, kPriceSweeps);
  };
  double bestPrice = 0, best = getValue();
  auto tryPrice = [&](double price) {
    weights.memory = price;
    double value = getValue() - price * limit;
    if (value <= best)
      return false;
    best = value;
    bestPrice = price;
    return true;
  };
  double price = memoryPrice, factor = 4;
  // In large problems the search for plans has tried those around it.
  unsigned rounds = facts.isLarge() ? 1 : kMemoryRounds;
  for (unsigned i = 0; i < rounds && !end.isOver(); ++i) {
    bool isHigher = tryPrice(price);
    if (!isHigher && i == 1) {
      // The first step went the wrong way.
      factor = 0.25;
      price = memoryPrice;
    } else if (!isHigher) {
      // The first price was too high, or the best one is passed.
      if (bestPrice > 0)
        break;
      factor = 0.25;
    }
    price *= factor;
  }
  // Between the prices that were tried.
  for (double step : {2.0, 1.4}) {
    price = bestPrice;
    if (bestPrice > 0 && !end.isOver() && !tryPrice(price / step))
      tryPrice(price * step);
  }
  return bestPrice;
}

/// The best price of the whole problem is near that of the folded one.
void Driver::raiseByPrices(Weights weights) {
  double price = weights.memory;
  for (double factor : {0.84, 1.19})
    for (double step = factor; !end.isOver() && !isClosed(); step *= factor) {
      double before = lowerBound;
      weights.memory = step * price;
      ascend(getRelaxation(), weights, kFoldedWork, kMaxSweeps);
      bound(weights);
      if (lowerBound <= before)
        break;
    }
}

/// In large problems other weights are followed only where the folded bound
/// says that they lead higher; the forms that suit them say which come next.
void Driver::raiseBound() {
  Weights weights = getBoundWeights(problem, 1, 1);
  double price =
      facts.does(Mechanism::BoundMemory) && memoryPrice > 0 && !isClosed()
          ? findMemoryPrice()
          : 0;
  double best = -kInfinity;
  for (unsigned i = 0;
       i < (facts.does(Mechanism::MoreBounds) ? kMaxBounds : 1) &&
       !isClosed() && !end.isOver();
       ++i) {
    weights.memory = price;
    double before = lowerBound;
    double value = facts.isLarge()
                       ? ascend(coarse, weights, kPriceWork, kPriceSweeps) -
                             price * static_cast<double>(problem.memoryLimit)
                       : 0;
    bool isFollowed = !facts.isLarge() || i == 0 || value >= best * (1 + kSlow);
    if (isFollowed) {
      best = std::max(best, value);
      ascend(getRelaxation(), weights, kFoldedWork, kMaxSweeps);
      bound(weights);
      if (facts.numStrands == 1 && options.gap > 0 && price > 0)
        raiseByPrices(weights);
    } else {
      pool.offer(getSignatures(coarse.round()));
    }
    bool isFar = facts.numStrands > 1 && pool.seconds > kFarGap * lowerBound;
    if (i > 1 && !facts.isLarge() && !isFar &&
        lowerBound - before < kSlow * lowerBound)
      return;
    Weights next = getBestWeights();
    bool isNew = next.once != weights.once || next.sums != weights.sums ||
                 next.waiting != weights.waiting;
    if (!isNew)
      return;
    weights = next;
  }
}
