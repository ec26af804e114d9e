//===- Bound.cpp - lower bound of all plans -------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Phases/Bound.h"
#include "Tandem/Limits.h"
#include "Tandem/Relaxation/Fold.h"
#include <algorithm>
#include <cmath>
#include <memory>

using namespace tandem::cost;
using namespace tandem::search;

BoundSearch::BoundSearch(SearchContext &context, GuidedSearch &guides)
    : context(context), guides(guides), problem(context.problem),
      facts(context.facts), pool(context.pool) {}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

static double getPrice(const Weights &weights, const PlanTotals &totals) {
  return weights.once * totals.once + weights.alone * totals.alone +
         weights.split * totals.split + weights.again * totals.again +
         weights.collectiveOnce * totals.collectiveOnce +
         weights.collectiveSplit * totals.collectiveSplit +
         weights.joined * totals.joined + weights.waiting * totals.waiting;
}

Weights BoundSearch::getBestWeights() const {
  Weights best = getBoundWeights(problem, 1, 1);
  double bestBound = -kInfinity;
  // The first weight is no larger than the second one: the distances of
  // `FactorGraph` rest on it.
  for (int second = 0; second <= kWeightSteps; ++second)
    for (int first = 0; first <= second; ++first) {
      Weights weights = getBoundWeights(problem, double(first) / kWeightSteps,
                                        double(second) / kWeightSteps);
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
double BoundSearch::getSlow() const {
  return facts.isLarge() ? kSlow : kSmallSlow;
}

/// Raises the folded bound until that becomes slow; returns it.
double BoundSearch::ascend(Relaxation &relaxation, const Weights &weights,
                           uint64_t maxWork, unsigned maxSweeps) {
  context.graph.setWeights(weights);
  relaxation.reset();
  unsigned sweeps =
      guides.getNumSweeps(maxWork, relaxation, kLeastSweeps, maxSweeps);
  double value = -kInfinity;
  for (unsigned i = 0; i < sweeps; ++i) {
    relaxation.sweep();
    if ((i + 1) % kSweepsPerBound != 0)
      continue;
    double now = relaxation.getBound();
    if (now - value < getSlow() * std::abs(now) || !context.proceeds(0.7))
      return std::max(now, value);
    value = now;
  }
  return relaxation.getBound();
}

/// The highest bound of some sweeps of the whole problem. Looks at nothing that
/// changes meanwhile but at whether the search was stopped.
double BoundSearch::getWholeBound(const FactorGraph &priced, Relaxation &whole,
                                  const Goal &goal) const {
  double slow = context.options.gap > 0 ? kAskedSlow : getSlow() / 2;
  unsigned sweeps =
      std::max(guides.getNumSweeps(kWholeWork, whole, 1, kMaxWholeSweeps),
               guides.getNumSweeps(kShortWork, whole, 1, kMaxQuickSweeps));
  if (context.options.gap > 0)
    sweeps *= kAskedSweeps;
  double best = -kInfinity, before = -kInfinity;
  for (unsigned i = 0; i < sweeps && !context.isOver(); ++i) {
    whole.sweep();
    double value = whole.getBound() - kRounding * priced.forbidden;
    best = std::max(best, value - goal.held);
    if (best >= goal.closed || value - before < slow * goal.values ||
        goal.values - value < kMet * goal.values)
      break;
    before = value;
  }
  return best;
}

/// The forms that suit the bound's weights, without the whole problem's bound.
void BoundSearch::searchForms(const Weights &weights) {
  if (context.isOver() || !pool.best)
    return;
  ascend(guides.getRelaxation(), weights, kFoldedWork, kMaxSweeps);
  guides.offer(guides.getRelaxation(), kInfinity);
}

void BoundSearch::searchSerialForms() {
  Weights weights = getBoundWeights(problem, 1, 1);
  weights.memory = guides.memoryPrice;
  searchForms(weights);
}

/// Raises the bound of the whole problem from where the folded one is.
void BoundSearch::bound(const Weights &weights) {
  Goal goal;
  goal.values =
      guides.offer(guides.getRelaxation(),
                   facts.does(Mechanism::BoundForms) ? kInfinity : -kInfinity);
  if (weights.memory > 0)
    goal.held = weights.memory * static_cast<double>(problem.memoryLimit);
  goal.closed = pool.seconds / (1 + std::max(context.options.gap, kProven)) *
                (1 + kEqualCost);
  join();
  if (facts.isLarge() && context.options.gap == 0) {
    start(goal);
    return;
  }
  Relaxation whole(context.graph, getUnfolded(context.graph));
  whole.adopt(guides.getRelaxation());
  context.raise(getWholeBound(context.graph, whole, goal));
  if (!facts.isLarge() && !context.findsForms())
    guides.offer(whole, goal.values);
  context.proceeds(0.8);
}

/// Messages and prices are copied: this thread goes on with others.
void BoundSearch::start(const Goal &goal) {
  auto priced = std::make_unique<FactorGraph>(context.graph);
  auto whole = std::make_unique<Relaxation>(*priced, getUnfolded(*priced));
  whole->adopt(guides.getRelaxation());
  rising =
      std::async(std::launch::async, [this, goal, priced = std::move(priced),
                                      whole = std::move(whole)] {
        return getWholeBound(*priced, *whole, goal);
      });
}

void BoundSearch::join() {
  if (!rising.valid())
    return;
  context.wait(rising);
  context.raise(rising.get());
}

/// The price of a byte that lifts the bound most: it is concave in the price.
double BoundSearch::findMemoryPrice() {
  if (!facts.does(Mechanism::BoundMemory) || guides.memoryPrice == 0 ||
      context.isClosed())
    return 0;
  double limit = static_cast<double>(problem.memoryLimit);
  Weights weights = getBoundWeights(problem, 1, 1);
  auto getValue = [&] {
    return ascend(guides.getProbe(), weights, kPriceWork, kPriceSweeps);
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
  double price = guides.memoryPrice, factor = kPriceStep;
  // In large problems the search for plans has tried those around it.
  unsigned rounds = facts.isLarge() ? 1 : kMemoryRounds;
  for (unsigned i = 0; i < rounds && !context.isOver(); ++i) {
    bool isHigher = tryPrice(price);
    if (!isHigher && i == 1) {
      // The first step went the wrong way.
      factor = 1 / kPriceStep;
      price = guides.memoryPrice;
    } else if (!isHigher) {
      // The first price was too high, or the best one is passed.
      if (bestPrice > 0)
        break;
      factor = 1 / kPriceStep;
    }
    price *= factor;
  }
  // Between the prices that were tried.
  for (double step : kPriceSteps) {
    price = bestPrice;
    if (bestPrice > 0 && !context.isOver() && !tryPrice(price / step))
      tryPrice(price * step);
  }
  return bestPrice;
}

/// The best price of the whole problem is near that of the folded one.
void BoundSearch::raiseByPrices(Weights weights) {
  double price = weights.memory;
  for (double factor : kWholePriceSteps)
    for (double step = factor; context.seeksMore(); step *= factor) {
      double before = context.lowerBound;
      weights.memory = step * price;
      follow(weights);
      if (context.lowerBound <= before)
        break;
    }
}

/// Raises the bound under the weights, from where the folded one ends.
void BoundSearch::follow(const Weights &weights) {
  ascend(guides.getRelaxation(), weights, kFoldedWork, kMaxSweeps);
  bound(weights);
}

/// In large problems other weights are followed only where the folded bound
/// says that they lead higher; the forms that suit them say which come next.
void BoundSearch::raise() {
  Weights weights = getBoundWeights(problem, 1, 1);
  double price = findMemoryPrice(), best = -kInfinity;
  unsigned most = facts.does(Mechanism::MoreBounds) ? kMaxBounds : 1;
  for (unsigned i = 0; i < most && context.seeksMore(); ++i) {
    weights.memory = price;
    double before = context.lowerBound, value = 0;
    if (facts.isLarge())
      value = ascend(guides.getProbe(), weights, kPriceWork, kPriceSweeps) -
              price * static_cast<double>(problem.memoryLimit);
    if (!facts.isLarge() || i == 0 || value >= best * (1 + kSlow)) {
      best = std::max(best, value);
      follow(weights);
      if (facts.numStrands == 1 && context.options.gap > 0 && price > 0)
        raiseByPrices(weights);
    } else {
      pool.offer(context.getSignatures(guides.getProbe().round()));
    }
    bool isFar =
        facts.numStrands > 1 && pool.seconds > kFarGap * context.lowerBound;
    if (i > 1 && !facts.isLarge() && !isFar &&
        context.lowerBound - before < kSlow * context.lowerBound)
      return;
    Weights next = getBestWeights();
    if (next.once == weights.once && next.sums == weights.sums &&
        next.waiting == weights.waiting && next.again == weights.again)
      return;
    weights = next;
  }
}
