//===- Relaxation.cpp - message passing: bound and forms ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Relaxation/Relaxation.h"
#include "Tandem/Limits.h"
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

using namespace tandem::cost;
using namespace tandem::search;

Relaxation::Relaxation(const FactorGraph &graph, std::vector<unsigned> given)
    : graph(graph), representatives(std::move(given)),
      places(graph.numMessages), messages(graph.numMessages),
      costs(graph.numMessages), decided(graph.variables.size()), levels(graph),
      slots(graph.variables.size()) {
  for (unsigned i = 0; i < graph.variables.size(); ++i) {
    const Variable &variable = graph.variables[i];
    const Variable &original = graph.variables[representatives[i]];
    for (size_t j = 0; j < variable.slots.size(); ++j) {
      auto [factor, slot] = variable.slots[j];
      auto [first, firstSlot] = original.slots[j];
      places[graph.factors[factor].messages[slot]] =
          graph.factors[first].messages[firstSlot];
    }
    if (representatives[i] == i)
      active.push_back(i);
  }
  shares.resize(graph.variables.size());
  for (unsigned variable : active)
    addSlots(variable);
  countRepeated();
  levels.keep(active);
}

Relaxation::Slot Relaxation::getSlot(unsigned index, unsigned slot) const {
  const Factor &factor = graph.factors[index];
  const LayoutMap &map = graph.getMap(factor, slot);
  Slot result = {.factor = index,
                 .slot = slot,
                 .first = getMessages(index, slot),
                 .size = static_cast<unsigned>(map.layouts.size()),
                 .layoutOf = map.ofSignature.data(),
                 .kind = &graph.kinds[factor.kind]};
  if (factor.variables.size() == 2) {
    result.otherFirst = getMessages(index, 1 - slot);
    result.otherSize = graph.getMap(factor, 1 - slot).layouts.size();
  }
  return result;
}

/// Slots of one factor that share a message move together: each by its part
/// only, so that the bound, being concave, does not fall.
void Relaxation::addSlots(unsigned variable) {
  std::array<unsigned, 2> numPartners;
  for (auto [factor, slot] : graph.variables[variable].slots) {
    Slot &added = slots[variable].emplace_back(getSlot(factor, slot));
    unsigned numTwins = 0;
    for (unsigned other : graph.factors[factor].variables) {
      numTwins += representatives[other] == variable;
      added.hasPartner[0] |= other < variable;
      added.hasPartner[1] |= other > variable;
    }
    added.part = 1.0 / numTwins;
  }
  for (unsigned side : {0, 1})
    numPartners[side] =
        std::count_if(slots[variable].begin(), slots[variable].end(),
                      [&](const Slot &slot) { return slot.hasPartner[side]; });
  shares[variable] = 1.0 / std::max({numPartners[0], numPartners[1], 1u});
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
      boundFactors.emplace_back(getSlot(i, 0), 0);
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
void Relaxation::getMarginals(const Slot &slot, double *result) {
  const FactorKind &kind = *slot.kind;
  if (slot.otherSize > 0) {
    getPairMarginals(slot, result);
    return;
  }
  if (kind.isPriced) {
    getPricedMarginals(slot, result);
    return;
  }
  std::fill_n(result, slot.size, kInfinity);
  levelSums = kind.levels.values;
  addUsers(slot, 1, kind.maps.size(), levelSums);
  size_t numProduced = kind.levels.begin.size() - 1;
  unsigned producer = getMessages(slot.factor, 0);
  for (unsigned produced = 0; produced < numProduced; ++produced) {
    double *sums = levelSums.data() + kind.levels.begin[produced];
    // What a level allows, a higher one does as well.
    for (size_t i =
             kind.levels.begin[produced + 1] - kind.levels.begin[produced] - 1;
         i-- > 0;)
      sums[i] = std::min(sums[i], sums[i + 1]);
    if (slot.slot == 0) {
      result[produced] = sums[0];
      continue;
    }
    double own = costs[producer + produced];
    const uint16_t *levelOf =
        kind.levelOf[slot.slot - 1].data() + produced * slot.size;
    for (size_t i = 0; i < slot.size; ++i)
      result[i] = std::min(result[i], own + sums[levelOf[i]]);
  }
}

/// Adds what the users in some other slots cost at least, per produced layout
/// and level.
void Relaxation::addUsers(const Slot &without, unsigned first, unsigned last,
                          std::vector<double> &sums) {
  for (unsigned user = first; user < last; ++user) {
    if (user == without.slot)
      continue;
    unsigned place = getMessages(without.factor, user);
    const double *best =
        levels.get(without.factor, user, place, costs.data() + place);
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i] += best[i];
  }
}

/// The same where early and late users have levels of their own: what both cost
/// together never falls with either.
void Relaxation::getPricedMarginals(const Slot &slot, double *result) {
  const FactorKind &kind = *slot.kind;
  unsigned firstLate = kind.numEarly + 1;
  bool isLate = slot.slot >= firstLate;
  std::fill_n(result, slot.size, kInfinity);
  levelSums.assign(kind.levels.values.size(), 0);
  lateSums.assign(kind.lateLevels.values.size(), 0);
  addUsers(slot, 1, firstLate, levelSums);
  addUsers(slot, firstLate, kind.maps.size(), lateSums);
  unsigned producer = getMessages(slot.factor, 0);
  const std::vector<unsigned> &earlyBegin = kind.levels.begin;
  const std::vector<unsigned> &lateBegin = kind.lateLevels.begin;
  for (unsigned produced = 0; produced + 1 < earlyBegin.size(); ++produced) {
    double own = slot.slot == 0 ? 0 : costs[producer + produced];
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
    if (slot.slot == 0) {
      result[produced] = best[0];
      continue;
    }
    const uint16_t *levelOf =
        kind.levelOf[slot.slot - 1].data() + produced * slot.size;
    for (size_t i = 0; i < slot.size; ++i)
      result[i] = std::min(result[i], own + best[levelOf[i]]);
  }
}

/// The same for a tensor with one user: the distances themselves.
void Relaxation::getPairMarginals(const Slot &slot, double *result) const {
  const double *distances = slot.kind->distances[0].data();
  const double *other = costs.data() + slot.otherFirst;
  if (slot.slot == 0) {
    for (size_t i = 0; i < slot.size; ++i, distances += slot.otherSize)
      result[i] = getLeastSum(distances, other, slot.otherSize);
    return;
  }
  std::fill_n(result, slot.size, kInfinity);
  for (size_t i = 0; i < slot.otherSize; ++i, distances += slot.size)
    for (size_t j = 0; j < slot.size; ++j)
      result[j] = std::min(result[j], distances[j] + other[i]);
}

/// What each value costs, with the min-marginals of its factors, which are left
/// in `marginals`, slot after slot.
void Relaxation::takeMarginals(unsigned index) {
  const Variable &variable = graph.variables[index];
  belief = graph.unaries[variable.unary];
  size_t size = 0;
  for (const Slot &slot : slots[index])
    size += slot.size;
  marginals.resize(std::max(marginals.size(), size));
  double *taken = marginals.data();
  for (const Slot &slot : slots[index]) {
    getMarginals(slot, taken);
    for (unsigned value = 0; value < variable.size; ++value)
      belief[value] += taken[slot.layoutOf[value]];
    taken += slot.size;
  }
}

void Relaxation::update(unsigned index, bool isForward) {
  takeMarginals(index);
  double *taken = marginals.data();
  for (const Slot &slot : slots[index]) {
    if (slot.hasPartner[isForward]) {
      std::vector<double> &least = levelBest;
      least.assign(slot.size, kInfinity);
      for (unsigned value = 0; value < belief.size(); ++value)
        least[slot.layoutOf[value]] =
            std::min(least[slot.layoutOf[value]], belief[value]);
      for (size_t j = 0; j < slot.size; ++j)
        taken[j] -= shares[index] * least[j];
    }
    // A constant is the same for variable and factor: without it numbers stay
    // small.
    double base = *std::min_element(taken, taken + slot.size);
    double *own = messages.data() + slot.first;
    bool isChanged = false;
    for (size_t j = 0; j < slot.size; ++j) {
      double before = own[j];
      own[j] += slot.part * (taken[j] - base - before);
      costs[slot.first + j] = -own[j];
      isChanged |= own[j] != before;
    }
    if (isChanged)
      levels.touch(slot.first);
    taken += slot.size;
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

double Relaxation::getLeast(unsigned index) {
  if (decided[index])
    return getBelief(index, *decided[index]);
  belief = graph.unaries[graph.variables[index].unary];
  for (const Slot &slot : slots[index])
    for (unsigned value = 0; value < belief.size(); ++value)
      belief[value] += messages[slot.first + slot.layoutOf[value]];
  return *std::min_element(belief.begin(), belief.end());
}

double Relaxation::getBound() {
  notePrices();
  double bound = 0;
  for (auto [variable, count] : boundVariables)
    bound += count * getLeast(variable);
  for (const auto &[producer, count] : boundFactors) {
    marginals.resize(std::max<size_t>(marginals.size(), producer.size));
    getMarginals(producer, marginals.data());
    bound += count * getLeastSum(marginals.data(),
                                 costs.data() + producer.first, producer.size);
  }
  return bound;
}

void Relaxation::decide(unsigned index, unsigned value) {
  leaveOpen(index);
  decided[index] = value;
  for (const Slot &slot : slots[index])
    for (unsigned i = 0; i < slot.size; ++i)
      if (i != slot.layoutOf[value])
        costs[slot.first + i] = kImpossible * graph.forbidden;
}

void Relaxation::leaveOpen(unsigned index) {
  decided[index].reset();
  for (const Slot &slot : slots[index]) {
    for (unsigned i = slot.first; i < slot.first + slot.size; ++i)
      costs[i] = -messages[i];
    levels.touch(slot.first);
  }
}
