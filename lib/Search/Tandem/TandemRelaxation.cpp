//===- TandemRelaxation.cpp - a bound for all plans, and forms ------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TandemRelaxation.h"
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

using namespace tandem::cost;
using namespace tandem::search;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Whether a variable in `slot` has a partner that comes later (or earlier).
static bool hasPartner(const Factor &factor, unsigned variable, bool later) {
  return std::any_of(factor.variables.begin(), factor.variables.end(),
                     [&](unsigned other) {
                       return later ? other > variable : other < variable;
                     });
}

Relaxation::Relaxation(const FactorGraph &graph, std::vector<unsigned> given)
    : graph(graph), representatives(std::move(given)),
      places(graph.numMessages), messages(graph.numMessages),
      costs(graph.numMessages), levels(graph),
      partners(graph.variables.size()) {
  for (unsigned i = 0; i < graph.variables.size(); ++i) {
    const Variable &variable = graph.variables[i];
    const Variable &original = graph.variables[representatives[i]];
    unsigned before = 0, behind = 0;
    for (size_t j = 0; j < variable.slots.size(); ++j) {
      auto [factor, slot] = variable.slots[j];
      auto [first, firstSlot] = original.slots[j];
      places[graph.factors[factor].messages[slot]] =
          graph.factors[first].messages[firstSlot];
      bool isBefore = hasPartner(graph.factors[factor], i, false);
      bool isBehind = hasPartner(graph.factors[factor], i, true);
      before += isBefore;
      behind += isBehind;
      if (representatives[i] == i)
        partners[i].push_back({isBefore, isBehind});
    }
    shares.push_back(1.0 / std::max({before, behind, 1u}));
    if (representatives[i] == i)
      active.push_back(i);
  }
  countTwins();
  countRepeated();
  levels.keep(active);
}

/// Variables that one stands for have the same least cost, and so have factors
/// of one kind whose slots share their messages.
void Relaxation::countRepeated() {
  std::vector<unsigned> counts(graph.variables.size());
  for (unsigned representative : representatives)
    ++counts[representative];
  for (unsigned i : active)
    boundVariables.emplace_back(i, counts[i]);
  std::map<std::vector<unsigned>, unsigned> known;
  std::vector<unsigned> key;
  for (unsigned i = 0; i < graph.factors.size(); ++i) {
    const Factor &factor = graph.factors[i];
    key.assign(1, factor.kind);
    for (unsigned slot = 0; slot < factor.variables.size(); ++slot)
      key.push_back(getMessages(i, slot));
    auto [place, isNew] = known.try_emplace(key, boundFactors.size());
    if (isNew)
      boundFactors.emplace_back(i, 0);
    ++boundFactors[place->second].second;
  }
}

/// Forgets what rests on other weights.
void Relaxation::notePrices() {
  if (numPriced == graph.numPriced)
    return;
  numPriced = graph.numPriced;
  levels.reset();
}

/// Slots of one factor that share a message move together: each by its part
/// only, so that the bound, being concave, does not fall.
void Relaxation::countTwins() {
  twins.resize(graph.variables.size());
  for (unsigned i : active)
    for (auto [factor, slot] : graph.variables[i].slots) {
      const Factor &info = graph.factors[factor];
      unsigned count = 0;
      for (unsigned other : info.variables)
        count += representatives[other] == i;
      twins[i].push_back(1.0 / count);
    }
}

void Relaxation::reset() {
  std::fill(messages.begin(), messages.end(), 0);
  std::fill(costs.begin(), costs.end(), 0);
  levels.forget();
}

void Relaxation::adopt(const Relaxation &other) {
  for (unsigned i = 0; i < graph.factors.size(); ++i)
    for (unsigned slot = 0; slot < graph.factors[i].variables.size(); ++slot) {
      size_t size = graph.getMap(graph.factors[i], slot).layouts.size();
      std::copy_n(other.messages.begin() + other.getMessages(i, slot), size,
                  messages.begin() + getMessages(i, slot));
    }
  for (size_t i = 0; i < messages.size(); ++i)
    costs[i] = -messages[i];
  levels.forget();
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

/// A factor costs as much as the dearest change of its users: at level l all
/// users choose among layouts that cost no more than that.
void Relaxation::getMarginals(unsigned index, unsigned slot,
                              std::vector<double> &result) {
  const Factor &factor = graph.factors[index];
  const FactorKind &kind = graph.kinds[factor.kind];
  size_t numProduced = graph.getMap(factor, 0).layouts.size();
  size_t size = graph.getMap(factor, slot).layouts.size();
  result.assign(size, kInfinity);
  if (factor.variables.size() == 2) {
    getPairMarginals(index, slot, result);
    return;
  }
  if (kind.isPriced) {
    getPricedMarginals(index, slot, result);
    return;
  }
  levelSums = kind.levels.values;
  addUsers(index, slot, 1, factor.variables.size(), levelSums);
  for (unsigned produced = 0; produced < numProduced; ++produced) {
    double *sums = levelSums.data() + kind.levels.begin[produced];
    // What a level allows, a higher one does as well.
    for (size_t i =
             kind.levels.begin[produced + 1] - kind.levels.begin[produced] - 1;
         i-- > 0;)
      sums[i] = std::min(sums[i], sums[i + 1]);
    if (slot == 0) {
      result[produced] = sums[0];
      continue;
    }
    double own = costs[getMessages(index, 0) + produced];
    const uint16_t *levelOf = kind.levelOf[slot - 1].data() + produced * size;
    for (size_t i = 0; i < size; ++i)
      result[i] = std::min(result[i], own + sums[levelOf[i]]);
  }
}

/// Adds what the users in some slots cost at least, per produced layout and
/// level.
void Relaxation::addUsers(unsigned index, unsigned without, unsigned first,
                          unsigned last, std::vector<double> &sums) {
  for (unsigned user = first; user < last; ++user) {
    if (user == without)
      continue;
    unsigned place = getMessages(index, user);
    const double *best = levels.get(index, user, place, costs.data() + place);
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i] += best[i];
  }
}

/// The same where early and late users have levels of their own: what both cost
/// together never falls with either.
void Relaxation::getPricedMarginals(unsigned index, unsigned slot,
                                    std::vector<double> &result) {
  const Factor &factor = graph.factors[index];
  const FactorKind &kind = graph.kinds[factor.kind];
  unsigned numUsers = factor.variables.size(), firstLate = kind.numEarly + 1;
  size_t size = result.size();
  bool isLate = slot >= firstLate;
  levelSums.assign(kind.levels.values.size(), 0);
  lateSums.assign(kind.lateLevels.values.size(), 0);
  addUsers(index, slot, 1, firstLate, levelSums);
  addUsers(index, slot, firstLate, numUsers, lateSums);
  const std::vector<unsigned> &earlyBegin = kind.levels.begin;
  const std::vector<unsigned> &lateBegin = kind.lateLevels.begin;
  for (unsigned produced = 0; produced + 1 < earlyBegin.size(); ++produced) {
    double own = slot == 0 ? 0 : costs[getMessages(index, 0) + produced];
    const double *early = levelSums.data() + earlyBegin[produced];
    const double *late = lateSums.data() + lateBegin[produced];
    size_t numEarly = earlyBegin[produced + 1] - earlyBegin[produced];
    size_t numLate = lateBegin[produced + 1] - lateBegin[produced];
    // Per level of the slot's own group, with the best one of the other.
    std::vector<double> &best = levelBest;
    best.assign(isLate ? numLate : numEarly, kInfinity);
    const double *total = kind.totals[produced].data();
    for (size_t i = 0; i < numEarly; ++i)
      for (size_t j = 0; j < numLate; ++j, ++total)
        best[isLate ? j : i] =
            std::min(best[isLate ? j : i], *total + early[i] + late[j]);
    for (size_t i = best.size() - 1; i-- > 0;)
      best[i] = std::min(best[i], best[i + 1]);
    if (slot == 0) {
      result[produced] = best[0];
      continue;
    }
    const uint16_t *levelOf = kind.levelOf[slot - 1].data() + produced * size;
    for (size_t i = 0; i < size; ++i)
      result[i] = std::min(result[i], own + best[levelOf[i]]);
  }
}

/// The least sum of two numbers at the same place; four lanes, so that no
/// minimum waits for the one before it.
static double getLeastSum(const double *a, const double *b, size_t size) {
  constexpr size_t kLanes = 4;
  std::array<double, kLanes> least;
  least.fill(kInfinity);
  size_t i = 0;
  for (; i + kLanes <= size; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane)
      least[lane] = std::min(least[lane], a[i + lane] + b[i + lane]);
  for (; i < size; ++i)
    least[0] = std::min(least[0], a[i] + b[i]);
  return *std::min_element(least.begin(), least.end());
}

/// The same for a tensor with one user: the distances themselves.
void Relaxation::getPairMarginals(unsigned index, unsigned slot,
                                  std::vector<double> &result) const {
  const Factor &factor = graph.factors[index];
  const double *distances = graph.kinds[factor.kind].distances[0].data();
  size_t numProduced = graph.getMap(factor, 0).layouts.size();
  size_t numWanted = graph.getMap(factor, 1).layouts.size();
  const double *own = costs.data() + getMessages(index, 1 - slot);
  for (size_t i = 0; i < numProduced; ++i, distances += numWanted) {
    if (slot == 0) {
      result[i] = getLeastSum(distances, own, numWanted);
      continue;
    }
    for (size_t j = 0; j < numWanted; ++j)
      result[j] = std::min(result[j], distances[j] + own[i]);
  }
}

void Relaxation::update(unsigned index, bool isForward) {
  const Variable &variable = graph.variables[index];
  const std::vector<double> &unary = graph.unaries[variable.unary];
  belief.assign(unary.begin(), unary.end());
  scratch.resize(std::max(scratch.size(), variable.slots.size()));
  for (size_t i = 0; i < variable.slots.size(); ++i) {
    auto [factor, slot] = variable.slots[i];
    getMarginals(factor, slot, scratch[i]);
    const LayoutMap &map = graph.getMap(graph.factors[factor], slot);
    for (unsigned value = 0; value < variable.size; ++value)
      belief[value] += scratch[i][map.ofSignature[value]];
  }
  for (size_t i = 0; i < variable.slots.size(); ++i) {
    auto [factor, slot] = variable.slots[i];
    const LayoutMap &map = graph.getMap(graph.factors[factor], slot);
    std::vector<double> &marginals = scratch[i];
    if (partners[index][i][isForward]) {
      std::vector<double> &least = levelBest;
      least.assign(marginals.size(), kInfinity);
      for (unsigned value = 0; value < variable.size; ++value)
        least[map.ofSignature[value]] =
            std::min(least[map.ofSignature[value]], belief[value]);
      for (size_t j = 0; j < marginals.size(); ++j)
        marginals[j] -= shares[index] * least[j];
    }
    unsigned begin = getMessages(factor, slot);
    // A constant is the same for variable and factor: without it numbers stay
    // small.
    double base = *std::min_element(marginals.begin(), marginals.end());
    double part = twins[index][i];
    bool isChanged = false;
    for (size_t j = 0; j < marginals.size(); ++j) {
      double &message = messages[begin + j];
      double before = message;
      message += part * (marginals[j] - base - message);
      costs[begin + j] = -message;
      isChanged |= message != before;
    }
    if (isChanged)
      levels.touch(begin);
  }
}

void Relaxation::pass(bool isForward) {
  notePrices();
  for (size_t i = 0; i < active.size(); ++i)
    update(active[isForward ? i : active.size() - 1 - i], isForward);
}

uint64_t Relaxation::getWork() const {
  uint64_t work = 0;
  for (unsigned variable : active)
    work += graph.getSweepWork(variable);
  return work;
}

double Relaxation::getBelief(unsigned index, unsigned value) const {
  const Variable &variable = graph.variables[index];
  double sum = graph.unaries[variable.unary][value];
  for (auto [factor, slot] : variable.slots) {
    const LayoutMap &map = graph.getMap(graph.factors[factor], slot);
    sum += getTaken(factor, slot)[map.ofSignature[value]];
  }
  return sum;
}

double Relaxation::getLeast(unsigned index) const {
  double least = kInfinity;
  for (unsigned value = 0; value < graph.variables[index].size; ++value)
    least = std::min(least, getBelief(index, value));
  return least;
}

double Relaxation::getBound() {
  notePrices();
  double bound = 0;
  for (auto [variable, count] : boundVariables)
    bound += count * getLeast(variable);
  std::vector<double> marginals;
  for (auto [i, count] : boundFactors) {
    getMarginals(i, 0, marginals);
    const double *own = costs.data() + getMessages(i, 0);
    double least = kInfinity;
    for (size_t j = 0; j < marginals.size(); ++j)
      least = std::min(least, marginals[j] + own[j]);
    bound += count * least;
  }
  return bound;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

std::vector<unsigned> Relaxation::round() {
  notePrices();
  std::vector<unsigned> values(graph.variables.size());
  std::vector<double> marginals;
  for (unsigned index : active) {
    const Variable &variable = graph.variables[index];
    belief = graph.unaries[variable.unary];
    for (auto [factor, slot] : variable.slots) {
      getMarginals(factor, slot, marginals);
      const LayoutMap &map = graph.getMap(graph.factors[factor], slot);
      for (unsigned value = 0; value < variable.size; ++value)
        belief[value] += marginals[map.ofSignature[value]];
    }
    values[index] =
        std::min_element(belief.begin(), belief.end()) - belief.begin();
    for (auto [factor, slot] : variable.slots) {
      const LayoutMap &map = graph.getMap(graph.factors[factor], slot);
      double *own = costs.data() + getMessages(factor, slot);
      std::fill_n(own, map.layouts.size(), 10 * graph.forbidden);
      own[map.ofSignature[values[index]]] = 0;
      levels.touch(getMessages(factor, slot));
    }
  }
  for (size_t i = 0; i < messages.size(); ++i)
    costs[i] = -messages[i];
  levels.forget();
  spread(values);
  return values;
}

void Relaxation::spread(std::vector<unsigned> &values) const {
  for (unsigned i = 0; i < values.size(); ++i)
    values[i] = values[representatives[i]];
}

std::vector<uint16_t>
Relaxation::getLayouts(unsigned index,
                       const std::vector<unsigned> &values) const {
  const Factor &factor = graph.factors[index];
  std::vector<uint16_t> layouts(factor.variables.size());
  for (unsigned slot = 0; slot < factor.variables.size(); ++slot)
    layouts[slot] =
        graph.getMap(factor, slot)
            .ofSignature[values[representatives[factor.variables[slot]]]];
  return layouts;
}

double Relaxation::getFactorCost(unsigned index,
                                 const std::vector<unsigned> &values) const {
  return graph.getChangeCost(graph.factors[index],
                             getLayouts(index, values).data());
}

double Relaxation::getCost(const std::vector<unsigned> &values) const {
  double sum = 0;
  for (unsigned i = 0; i < graph.variables.size(); ++i)
    sum += graph.unaries[graph.variables[i].unary][values[i]];
  for (unsigned i = 0; i < graph.factors.size(); ++i)
    sum += getFactorCost(i, values);
  return sum;
}

/// What each value costs, with the tensors around it. A tensor's cost depends
/// on the layout that a value has there, unless the variable has two slots.
std::vector<double>
Relaxation::getLocalCosts(unsigned index, std::vector<unsigned> &values) const {
  const Variable &variable = graph.variables[index];
  std::vector<double> sums = graph.unaries[variable.unary], prices;
  unsigned last = ~0u;
  for (size_t i = 0; i < variable.slots.size(); ++i) {
    auto [factor, slot] = variable.slots[i];
    // A variable in two slots of a factor pays once.
    if (std::exchange(last, factor) == factor)
      continue;
    const LayoutMap &map = graph.getMap(graph.factors[factor], slot);
    if (twins[index][i] < 1) {
      unsigned before = values[index];
      for (unsigned value = 0; value < variable.size; ++value) {
        values[index] = value;
        sums[value] += getFactorCost(factor, values);
      }
      values[index] = before;
      continue;
    }
    std::vector<uint16_t> layouts = getLayouts(factor, values);
    prices.clear();
    for (size_t j = 0; j < map.layouts.size(); ++j) {
      layouts[slot] = j;
      prices.push_back(
          graph.getChangeCost(graph.factors[factor], layouts.data()));
    }
    for (unsigned value = 0; value < variable.size; ++value)
      sums[value] += prices[map.ofSignature[value]];
  }
  return sums;
}

/// Gives the variable the value that suits its neighbours best.
bool Relaxation::settle(std::vector<unsigned> &values,
                        unsigned variable) const {
  std::vector<double> costs = getLocalCosts(variable, values);
  unsigned before = values[variable];
  double best = costs[before];
  for (unsigned value = 0; value < costs.size(); ++value)
    if (costs[value] < best - 1e-12 * (1 + best)) {
      best = costs[value];
      values[variable] = value;
    }
  return values[variable] != before;
}

void Relaxation::descend(std::vector<unsigned> &values, unsigned maxRounds,
                         const std::vector<bool> &fixed) {
  for (unsigned round = 0; round < maxRounds; ++round) {
    bool isStable = true;
    for (unsigned variable : active)
      if (fixed.empty() || !fixed[variable])
        isStable &= !settle(values, variable);
    if (isStable)
      break;
  }
  spread(values);
}

void Relaxation::force(std::vector<unsigned> &values, unsigned variable,
                       unsigned value) {
  values[variable] = value;
  for (unsigned round = 0; round < 2; ++round)
    for (auto [factor, slot] : graph.variables[variable].slots)
      for (unsigned next : graph.factors[factor].variables) {
        next = representatives[next];
        if (next != variable)
          settle(values, next);
      }
  spread(values);
}

std::vector<Move> Relaxation::getMoves(std::vector<unsigned> values) const {
  std::vector<Move> moves;
  for (unsigned variable : active) {
    std::vector<double> costs = getLocalCosts(variable, values);
    for (unsigned value = 0; value < costs.size(); ++value) {
      double added = costs[value] - costs[values[variable]];
      if (value != values[variable] && added < graph.forbidden / 2)
        moves.push_back({variable, value, added});
    }
  }
  std::stable_sort(
      moves.begin(), moves.end(),
      [](const Move &a, const Move &b) { return a.added < b.added; });
  return moves;
}
