//===- Dual.cpp - bound of additive problems ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Sums/Dual.h"
#include "Tandem/Limits.h"
#include <algorithm>
#include <limits>

using namespace tandem::search;

SumDual::SumDual(const SumModel &model, const SumPrices &prices)
    : model(model), variables(model.variables.size()) {
  for (size_t i = 0; i < variables.size(); ++i) {
    variables[i].unaries.resize(model.variables[i].values.size());
    if (variables[i].unaries.size() > 1)
      open.push_back(i);
  }
  factors.reserve(model.factors.size());
  for (const SumFactor &factor : model.factors)
    addFactor(factor);
  size_t most = 0, mostTogether = 0;
  for (Variable &variable : variables) {
    unsigned numBefore = 0, numBehind = 0;
    size_t together = 0;
    for (unsigned i : variable.slots) {
      numBefore += slots[i].hasEarlier;
      numBehind += slots[i].hasLater;
      together += slots[i].size;
      most = std::max<size_t>(most, slots[i].size);
    }
    variable.share = 1.0 / std::max({numBefore, numBehind, 1u});
    mostTogether = std::max(mostTogether, together);
  }
  marginals.resize(mostTogether);
  least.resize(most);
  setPrices(prices);
}

void SumDual::addFactor(const SumFactor &factor) {
  Factor &own = factors.emplace_back();
  own.table = &model.tables[factor.table];
  own.first = costs.size();
  own.firstSlot = slots.size();
  auto [earliest, latest] =
      std::minmax_element(factor.slots.begin(), factor.slots.end(),
                          [](const SumSlot &a, const SumSlot &b) {
                            return a.variable < b.variable;
                          });
  size_t size = 1;
  for (unsigned i = 0; i < factor.slots.size(); ++i) {
    const SumSlot &part = factor.slots[i];
    unsigned numRoles = part.origins.size();
    variables[part.variable].slots.push_back(slots.size());
    slots.push_back(
        {&part, static_cast<unsigned>(factors.size() - 1), i,
         static_cast<unsigned>(costs.size()), numRoles,
         earliest->variable<part.variable, latest->variable> part.variable});
    costs.resize(costs.size() + numRoles);
    size *= numRoles;
  }
  own.end = costs.size();
  if (own.table->chain) {
    own.chain.emplace(*own.table->chain, 0);
    return;
  }
  table.resize(std::max(table.size(), size));
  before.resize(std::max(before.size(), size));
}

void SumDual::setPrices(SumPrices others) {
  prices = std::move(others);
  for (unsigned i = 0; i < variables.size(); ++i)
    for (unsigned value = 0; value < variables[i].unaries.size(); ++value)
      variables[i].unaries[value] = model.getUnary(prices, i, value);
  for (unsigned i = 0; i < factors.size(); ++i)
    if (factors[i].chain)
      factors[i].chain->setPrice(model.getWaitingPrice(prices, i));
    else
      factors[i].entries = model.getEntries(prices, i);
}

std::vector<double> SumDual::getMessages() const {
  std::vector<double> messages(model.numOrigins);
  for (const Slot &slot : slots)
    for (unsigned i = 0; i < slot.size; ++i)
      messages[slot.part->origins[i]] = costs[slot.first + i];
  return messages;
}

/// What one role is sent is a constant: 0 is as good.
void SumDual::setMessages(const std::vector<double> &messages) {
  for (const Slot &slot : slots)
    for (unsigned i = 0; i < slot.size; ++i)
      costs[slot.first + i] =
          slot.size > 1 ? messages[slot.part->origins[i]] : 0;
  forgetOffers();
}

void SumDual::forgetOffers() {
  for (Factor &factor : factors)
    if (factor.chain)
      factor.chain->forget();
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

void SumDual::getMarginals(const Slot &slot, const double *offers,
                           double *result) {
  Factor &factor = factors[slot.factor];
  const double *offer = offers + factor.first;
  if (factor.chain) {
    factor.chain->get(slot.index, offer, result);
    return;
  }
  const std::vector<unsigned> &sizes = factor.table->sizes;
  // What the slots before it cost together.
  unsigned numBefore = 1;
  before[0] = 0;
  for (unsigned other = 0; other < slot.index; ++other) {
    unsigned width = sizes[other];
    for (unsigned i = numBefore; i-- > 0;) {
      double sum = before[i];
      for (unsigned j = 0; j < width; ++j)
        before[i * width + j] = sum + offer[j];
    }
    numBefore *= width;
    offer += width;
  }
  // The slots behind it, the last one first.
  const double *from = factor.entries.data();
  unsigned size = factor.entries.size();
  offer = offers + factor.end;
  for (unsigned other = sizes.size(); --other > slot.index;) {
    unsigned width = sizes[other];
    offer -= width;
    size /= width;
    for (unsigned i = 0; i < size; ++i) {
      double best = kInfinity;
      for (unsigned j = 0; j < width; ++j)
        best = std::min(best, from[i * width + j] + offer[j]);
      table[i] = best;
    }
    from = table.data();
  }
  std::fill_n(result, slot.size, kInfinity);
  for (unsigned i = 0; i < numBefore; ++i)
    for (unsigned j = 0; j < slot.size; ++j)
      result[j] = std::min(result[j], before[i] + *from++);
}

void SumDual::update(const Variable &variable, bool isForward) {
  belief = variable.unaries;
  double *own = marginals.data();
  for (unsigned i : variable.slots) {
    const Slot &slot = slots[i];
    getMarginals(slot, costs.data(), own);
    const unsigned *roleOf = slot.part->roleOf.data();
    for (size_t value = 0; value < belief.size(); ++value)
      belief[value] += own[roleOf[value]];
    own += slot.size;
  }
  own = marginals.data();
  for (unsigned i : variable.slots) {
    const Slot &slot = slots[i];
    if (isForward ? slot.hasLater : slot.hasEarlier) {
      const unsigned *roleOf = slot.part->roleOf.data();
      std::fill_n(least.data(), slot.size, kInfinity);
      for (size_t value = 0; value < belief.size(); ++value)
        least[roleOf[value]] = std::min(least[roleOf[value]], belief[value]);
      for (unsigned j = 0; j < slot.size; ++j)
        own[j] -= variable.share * least[j];
    }
    // A constant is the same for variable and factor: without it numbers stay
    // small.
    double base = *std::min_element(own, own + slot.size);
    for (unsigned j = 0; j < slot.size; ++j)
      costs[slot.first + j] = base - own[j];
    if (factors[slot.factor].chain)
      factors[slot.factor].chain->change(slot.index);
    own += slot.size;
  }
}

void SumDual::sweep() {
  for (unsigned i : open)
    update(variables[i], true);
  for (size_t i = open.size(); i-- > 0;)
    update(variables[open[i]], false);
}

uint64_t SumDual::getWork() const {
  uint64_t work = 0;
  for (const Factor &factor : factors) {
    uint64_t times = factor.chain ? kChainPasses : factor.table->sizes.size();
    work += 2 * times * factor.table->getSize();
  }
  return work;
}

/// What each value costs now.
std::vector<double> SumDual::getUnaries(const Variable &variable) const {
  std::vector<double> sums = variable.unaries;
  for (unsigned i : variable.slots)
    for (size_t value = 0; value < sums.size(); ++value)
      sums[value] -= costs[slots[i].first + slots[i].part->roleOf[value]];
  return sums;
}

/// What an entry of the factor's table costs now.
double SumDual::getEntry(unsigned index,
                         const std::vector<unsigned> &choice) const {
  const Factor &factor = factors[index];
  double sum = model.getFactorCost(prices, index, choice);
  for (size_t i = 0; i < factor.table->sizes.size(); ++i) {
    const Slot &slot = slots[factor.firstSlot + i];
    sum += costs[slot.first + slot.part->roleOf[choice[slot.part->variable]]];
  }
  return sum;
}

double SumDual::getLeastUnary(const Variable &variable) const {
  std::vector<double> sums = getUnaries(variable);
  return *std::min_element(sums.begin(), sums.end());
}

double SumDual::getLeastEntry(unsigned index) {
  const Slot &slot = slots[factors[index].firstSlot];
  getMarginals(slot, costs.data(), marginals.data());
  double best = kInfinity;
  for (unsigned i = 0; i < slot.size; ++i)
    best = std::min(best, marginals[i] + costs[slot.first + i]);
  return best;
}

double SumDual::getBound() {
  double bound = 0;
  for (const Variable &variable : variables)
    bound += getLeastUnary(variable);
  for (unsigned i = 0; i < factors.size(); ++i)
    bound += getLeastEntry(i);
  return bound;
}

std::vector<double> SumDual::getExcess(const std::vector<unsigned> &choice) {
  std::vector<double> excess;
  for (unsigned i = 0; i < variables.size(); ++i) {
    std::vector<double> sums = getUnaries(variables[i]);
    excess.push_back(sums[choice[i]] -
                     *std::min_element(sums.begin(), sums.end()));
  }
  for (unsigned i = 0; i < factors.size(); ++i) {
    double own = getEntry(i, choice) - getLeastEntry(i);
    for (const SumSlot &slot : model.factors[i].slots)
      excess[slot.variable] += own;
  }
  return excess;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

void SumDual::addMarginals(const Slot &slot, const double *offers,
                           std::vector<double> &sums) {
  getMarginals(slot, offers, marginals.data());
  for (size_t value = 0; value < sums.size(); ++value)
    sums[value] += marginals[slot.part->roleOf[value]];
}

std::vector<unsigned> SumDual::round() {
  std::vector<double> offers = costs;
  std::vector<unsigned> choice;
  for (const Variable &variable : variables) {
    std::vector<double> sums = variable.unaries;
    for (unsigned i : variable.slots)
      addMarginals(slots[i], offers.data(), sums);
    choice.push_back(std::min_element(sums.begin(), sums.end()) - sums.begin());
    for (unsigned i : variable.slots) {
      const Slot &slot = slots[i];
      unsigned role = slot.part->roleOf[choice.back()];
      for (unsigned j = 0; j < slot.size; ++j)
        offers[slot.first + j] = j == role ? 0 : kImpossible * model.forbidden;
      if (factors[slot.factor].chain)
        factors[slot.factor].chain->change(slot.index);
    }
  }
  // The messages stand again.
  forgetOffers();
  return choice;
}

/// With all that its factors cost moved to a variable they cost nothing.
std::vector<std::vector<double>> SumDual::getLeast() {
  double bound = 0;
  std::vector<double> ofVariable, ofFactor;
  for (const Variable &variable : variables)
    bound += ofVariable.emplace_back(getLeastUnary(variable));
  for (unsigned i = 0; i < factors.size(); ++i)
    bound += ofFactor.emplace_back(getLeastEntry(i));
  std::vector<std::vector<double>> result;
  for (unsigned i = 0; i < variables.size(); ++i) {
    std::vector<double> &sums = result.emplace_back(variables[i].unaries);
    double others = bound - ofVariable[i];
    for (unsigned j : variables[i].slots) {
      others -= ofFactor[slots[j].factor];
      addMarginals(slots[j], costs.data(), sums);
    }
    for (double &sum : sums)
      sum += others;
  }
  return result;
}
