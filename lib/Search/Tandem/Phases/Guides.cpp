//===- Guides.cpp - forms under several prices ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Phases/Guides.h"
#include "Tandem/Limits.h"
#include "Tandem/Relaxation/Fold.h"
#include <algorithm>
#include <cmath>
#include <set>

using namespace tandem::cost;
using namespace tandem::search;

GuidedSearch::GuidedSearch(SearchContext &context)
    : context(context), problem(context.problem), facts(context.facts),
      graph(context.graph), pool(context.pool), folded(graph, context.repeats),
      coarse(graph, facts.does(Mechanism::Coarse)
                        ? findRepeats(graph, kCoarseDistance)
                        : context.repeats) {
  const std::vector<unsigned> &repeats = context.repeats;
  size_t numLeft = std::set<unsigned>(repeats.begin(), repeats.end()).size();
  double share =
      static_cast<double>(numLeft) / static_cast<double>(repeats.size());
  if (facts.does(Mechanism::Unfolded) && share > kWorthFolding &&
      !context.findsForms())
    unfolded.emplace(graph, getUnfolded(graph));
}

unsigned GuidedSearch::getNumSweeps(uint64_t work, const Relaxation &relaxation,
                                    unsigned least, unsigned most) {
  uint64_t sweeps = work / (1 + relaxation.getWork());
  return std::clamp<uint64_t>(sweeps, least, most);
}

//===----------------------------------------------------------------------===//
// Guides
//===----------------------------------------------------------------------===//

/// Weights that lead to good plans; no bounds.
std::vector<Weights> GuidedSearch::getGuides() const {
  std::vector<Weights> guides(2);
  double scale = std::isfinite(pool.seconds) ? pool.seconds : 1;
  double join = scale / static_cast<double>(problem.operators.size());
  guides[1].waiting = kWaitingPrice;
  auto add = [&](const Guide &guide) {
    Weights weights;
    weights.split = guide.split;
    weights.collectiveOnce = guide.collectiveOnce;
    weights.collectiveSplit = guide.collectiveSplit;
    weights.waiting = std::min(guide.collectiveSplit, kGuidedWaiting);
    weights.join = guide.joins * join;
    guides.push_back(weights);
  };
  if (!facts.does(Mechanism::Guides))
    return guides;
  add(kGuide);
  if (facts.numStrands > 1)
    for (const Guide &guide : kStrandGuides)
      add(guide);
  // What holds less often communicates less, too.
  if (pool.leastPeak < std::numeric_limits<int64_t>::max()) {
    guides.push_back(guides[1]);
    guides.back().memory =
        scale / kHoldingParts / static_cast<double>(pool.leastPeak + 1);
  }
  return guides;
}

double GuidedSearch::offer(Relaxation &relaxation, double below) {
  std::vector<unsigned> values = relaxation.round();
  relaxation.descend(values, kDescentRounds);
  double relaxed = relaxation.getCost(values);
  if (relaxed < below)
    pool.offer(context.getSignatures(values));
  return relaxed;
}

/// Makes plans of what suits the weights: after some sweeps, and after twice as
/// many as long as that leads to other forms.
void GuidedSearch::search(const Weights &weights) {
  graph.setWeights(weights);
  Relaxation &relaxation = getRelaxation();
  // Messages of other prices are a worse start than none.
  relaxation.reset();
  unsigned sweeps = getNumSweeps(kShortWork, relaxation, kLeastFormSweeps,
                                 kFormSweeps),
           done = 0;
  unsigned most =
      context.findsForms() || !facts.does(Mechanism::MoreSweeps)
          ? sweeps
          : getNumSweeps(kBriefWork, relaxation, sweeps, kMaxFormSweeps);
  PlanPool::Record found;
  double least = kInfinity, bound = -kInfinity;
  bool mayImprove = true;
  while (mayImprove && done < most) {
    for (; done < std::min(sweeps, most); ++done)
      relaxation.sweep();
    sweeps *= 2;
    double relaxed = offer(relaxation, least), before = bound;
    if (pool.offered.seconds < found.seconds)
      found = pool.offered;
    bound = relaxation.getBound();
    bool hasMoved = relaxed < least || bound - before > kSlow * bound;
    least = std::min(least, relaxed);
    mayImprove = hasMoved && least - bound > kNearBound * bound;
  }
  context.addLeader(found);
}

void GuidedSearch::run() {
  std::vector<Weights> guides = getGuides();
  for (size_t i = 0; i < guides.size(); ++i) {
    if (pool.best && !context.proceeds(0.4 * double(i) / double(guides.size())))
      return;
    search(guides[i]);
    // The scale of prices is known after the first plan.
    if (i == 0)
      guides = getGuides();
  }
}

//===----------------------------------------------------------------------===//
// Prices of memory
//===----------------------------------------------------------------------===//

/// The price to try next: from one that is too low upwards, and around the one
/// whose plan costs least. 0 if all that is left lies next to one that was
/// tried. `trials` rise.
double GuidedSearch::getNextPrice(const std::vector<Trial> &trials) {
  auto best = std::min_element(
      trials.begin(), trials.end(),
      [](const Trial &a, const Trial &b) { return a.seconds < b.seconds; });
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

/// Searches forms under the price.
GuidedSearch::Trial GuidedSearch::tryPrice(Weights weights, double price) {
  weights.memory = price;
  graph.setWeights(weights);
  coarse.reset();
  unsigned sweeps =
      getNumSweeps(kPriceWork, coarse, kLeastPriceSweeps, kMostPriceSweeps);
  for (unsigned i = 0; i < sweeps; ++i)
    coarse.sweep();
  double bound =
      coarse.getBound() - price * static_cast<double>(problem.memoryLimit);
  std::vector<unsigned> values = coarse.round();
  getRelaxation().descend(values, kDescentRounds);
  double seconds = pool.offer(context.getSignatures(values));
  context.addLeader(pool.offered);
  return {price, bound, seconds};
}

/// Tries prices under the bound's weights: what they lead to are plans, and
/// bounds that say which price the bound is to begin with.
void GuidedSearch::searchPrices(double unit) {
  std::vector<Trial> trials;
  Weights weights = getBoundWeights(problem, 1, 1);
  double price = kFirstShare * unit, highest = -kInfinity;
  unsigned rounds = getNumSweeps(kBriefWork, getRelaxation(), kLeastBoundRounds,
                                 kMostBoundRounds);
  for (unsigned round = 0; round < rounds && price > 0; ++round) {
    if (pool.best && !context.proceeds(0.3))
      return;
    Trial trial = tryPrice(weights, price);
    auto place = std::upper_bound(
        trials.begin(), trials.end(), price,
        [](double value, const Trial &other) { return value < other.price; });
    trials.insert(place, trial);
    price = getNextPrice(trials);
  }
  for (const Trial &trial : trials)
    if (trial.bound > highest) {
      highest = trial.bound;
      memoryPrice = trial.price;
    }
}

/// Not where the best plan of all that were tried fits anyway.
void GuidedSearch::fitMemory() {
  if (problem.memoryLimit == kNoLimit ||
      (pool.best && pool.leastSeconds >= pool.seconds * (1 - kProven)))
    return;
  double scale = 0;
  for (const PlanTotals &totals : pool.totals)
    scale = std::max(scale, totals.getSum());
  double unit = (scale + 1e-6) / static_cast<double>(problem.memoryLimit + 1);
  if (facts.does(Mechanism::BoundPrices))
    searchPrices(unit);
}
