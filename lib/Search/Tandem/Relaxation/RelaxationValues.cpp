//===- RelaxationValues.cpp - forms from messages -------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Limits.h"
#include "Tandem/Relaxation/Relaxation.h"
#include <algorithm>
#include <utility>

using namespace tandem::cost;
using namespace tandem::search;

std::vector<unsigned> Relaxation::round() {
  notePrices();
  std::vector<unsigned> values(graph.variables.size());
  for (unsigned index : active) {
    takeMarginals(index);
    values[index] =
        std::min_element(belief.begin(), belief.end()) - belief.begin();
    for (const Slot &slot : slots[index]) {
      double *own = costs.data() + slot.first;
      std::fill_n(own, slot.size, kImpossible * graph.forbidden);
      own[slot.layoutOf[values[index]]] = 0;
      levels.touch(slot.first);
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
  std::vector<double> sums = graph.unaries[graph.variables[index].unary];
  std::vector<double> prices;
  unsigned last = ~0u;
  for (const Slot &slot : slots[index]) {
    // A variable in two slots of a factor pays once.
    if (std::exchange(last, slot.factor) == slot.factor)
      continue;
    if (slot.part < 1) {
      unsigned before = values[index];
      for (unsigned value = 0; value < sums.size(); ++value) {
        values[index] = value;
        sums[value] += getFactorCost(slot.factor, values);
      }
      values[index] = before;
      continue;
    }
    std::vector<uint16_t> layouts = getLayouts(slot.factor, values);
    prices.clear();
    for (size_t j = 0; j < slot.size; ++j) {
      layouts[slot.slot] = j;
      prices.push_back(
          graph.getChangeCost(graph.factors[slot.factor], layouts.data()));
    }
    for (unsigned value = 0; value < sums.size(); ++value)
      sums[value] += prices[slot.layoutOf[value]];
  }
  return sums;
}

/// Gives the variable the value that suits its neighbours best.
bool Relaxation::settle(std::vector<unsigned> &values, unsigned variable) {
  std::vector<double> costs = getLocalCosts(variable, values);
  // Of each layout, what each user of the tensor finds made by those before.
  for (const Slot &slot : slots[variable]) {
    uint64_t numUsers = graph.factors[slot.factor].variables.size();
    settleWork += slot.size * numUsers * numUsers / 2;
  }
  unsigned before = values[variable];
  double best = costs[before];
  for (unsigned value = 0; value < costs.size(); ++value)
    if (costs[value] < best - kEqualCost * (1 + best)) {
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
