//===- Dual.cpp - a bound for problems whose costs add up -----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Sums/Dual.h"
#include <algorithm>
#include <limits>

using namespace tandem::search;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// How often a chain is gone over for the marginals of all its slots.
constexpr unsigned kChainPasses = 3;

SumDual::SumDual(const SumModel &model, const SumPrices &prices)
    : model(model), unaries(model.variables.size()),
      entries(model.factors.size()), chains(model.factors.size()) {
  for (size_t i = 0; i < unaries.size(); ++i)
    unaries[i].resize(model.variables[i].values.size());
  for (const SumFactor &factor : model.factors) {
    std::vector<std::vector<double>> &own = costs.emplace_back();
    for (const std::vector<SumRoles> &roles : factor.roles)
      own.emplace_back(roles.size());
    if (const auto &chain = model.tables[factor.table].chain)
      chains[costs.size() - 1].emplace(*chain, 0);
  }
  setPrices(prices);
}

void SumDual::setPrices(SumPrices others) {
  prices = std::move(others);
  for (unsigned i = 0; i < unaries.size(); ++i)
    for (unsigned value = 0; value < unaries[i].size(); ++value)
      unaries[i][value] = model.getUnary(prices, i, value);
  for (unsigned i = 0; i < chains.size(); ++i)
    if (chains[i])
      chains[i]->setPrice(model.getWaitingPrice(prices, i));
    else
      entries[i] = model.getEntries(prices, i);
}

std::vector<double> SumDual::getMessages() const {
  std::vector<double> messages(model.numOrigins);
  for (unsigned i = 0; i < costs.size(); ++i)
    for (unsigned slot = 0; slot < costs[i].size(); ++slot)
      for (unsigned j = 0; j < costs[i][slot].size(); ++j)
        messages[model.factors[i].origins[slot][j]] = costs[i][slot][j];
  return messages;
}

void SumDual::setMessages(const std::vector<double> &messages) {
  for (unsigned i = 0; i < costs.size(); ++i)
    for (unsigned slot = 0; slot < costs[i].size(); ++slot)
      for (unsigned j = 0; j < costs[i][slot].size(); ++j)
        costs[i][slot][j] = messages[model.factors[i].origins[slot][j]];
  forgetOffers();
}

void SumDual::forgetOffers() {
  for (std::optional<ChainMarginals> &chain : chains)
    if (chain)
      chain->forget();
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

void SumDual::getMarginals(unsigned index, unsigned slot,
                           const std::vector<std::vector<double>> &offers,
                           std::vector<double> &result) {
  const SumTable &data = model.tables[model.factors[index].table];
  if (chains[index]) {
    chains[index]->get(slot, offers, result);
    return;
  }
  unsigned last = data.sizes.size() - 1;
  size_t size = data.made.size();
  const double *from = entries[index].data();
  table.resize(size);
  // The slots behind it, the last one first.
  for (unsigned other = last; other > slot; --other) {
    size_t width = data.sizes[other];
    const double *offer = offers[other].data();
    size /= width;
    for (size_t i = 0; i < size; ++i) {
      double best = kInfinity;
      for (size_t j = 0; j < width; ++j)
        best = std::min(best, from[i * width + j] + offer[j]);
      table[i] = best;
    }
    from = table.data();
  }
  // What the slots before it cost together.
  before.assign(1, 0);
  std::vector<double> next;
  for (unsigned other = 0; other < slot; ++other) {
    next.clear();
    for (double sum : before)
      for (double offer : offers[other])
        next.push_back(sum + offer);
    before.swap(next);
  }
  size_t width = data.sizes[slot];
  result.assign(width, kInfinity);
  for (size_t i = 0; i < before.size(); ++i)
    for (size_t j = 0; j < width; ++j)
      result[j] = std::min(result[j], before[i] + from[i * width + j]);
}

/// Whether a factor has a variable that comes later (or earlier).
static bool hasPartner(const SumFactor &factor, unsigned variable, bool later) {
  return std::any_of(factor.variables.begin(), factor.variables.end(),
                     [&](unsigned other) {
                       return later ? other > variable : other < variable;
                     });
}

void SumDual::update(unsigned index, bool isForward) {
  const SumVariable &variable = model.variables[index];
  belief = unaries[index];
  scratch.resize(std::max(scratch.size(), variable.slots.size()));
  unsigned numBefore = 0, numBehind = 0;
  for (size_t i = 0; i < variable.slots.size(); ++i) {
    auto [factor, slot] = variable.slots[i];
    getMarginals(factor, slot, costs[factor], scratch[i]);
    const std::vector<unsigned> &roleOf = model.factors[factor].roleOf[slot];
    for (size_t value = 0; value < belief.size(); ++value)
      belief[value] += scratch[i][roleOf[value]];
    numBefore += hasPartner(model.factors[factor], index, false);
    numBehind += hasPartner(model.factors[factor], index, true);
  }
  double share = 1.0 / std::max({numBefore, numBehind, 1u});
  for (size_t i = 0; i < variable.slots.size(); ++i) {
    auto [factor, slot] = variable.slots[i];
    std::vector<double> &marginals = scratch[i];
    if (hasPartner(model.factors[factor], index, isForward)) {
      const std::vector<unsigned> &roleOf = model.factors[factor].roleOf[slot];
      least.assign(marginals.size(), kInfinity);
      for (size_t value = 0; value < belief.size(); ++value)
        least[roleOf[value]] = std::min(least[roleOf[value]], belief[value]);
      for (size_t j = 0; j < marginals.size(); ++j)
        marginals[j] -= share * least[j];
    }
    // A constant is the same for variable and factor: without it numbers stay
    // small.
    double base = *std::min_element(marginals.begin(), marginals.end());
    for (size_t j = 0; j < marginals.size(); ++j)
      costs[factor][slot][j] = base - marginals[j];
    if (chains[factor])
      chains[factor]->change(slot);
  }
}

void SumDual::sweep() {
  unsigned count = model.variables.size();
  for (unsigned i = 0; i < count; ++i)
    update(i, true);
  for (unsigned i = count; i-- > 0;)
    update(i, false);
}

uint64_t SumDual::getWork() const {
  uint64_t work = 0;
  for (const SumFactor &factor : model.factors) {
    const SumTable &table = model.tables[factor.table];
    uint64_t times = table.chain ? kChainPasses : factor.variables.size();
    work += 2 * times * table.getSize();
  }
  return work;
}

double SumDual::getUnary(unsigned index, unsigned value) const {
  double sum = unaries[index][value];
  for (auto [factor, slot] : model.variables[index].slots)
    sum -= costs[factor][slot][model.factors[factor].roleOf[slot][value]];
  return sum;
}

double SumDual::getEntry(unsigned index,
                         const std::vector<unsigned> &choice) const {
  const SumFactor &factor = model.factors[index];
  double sum = model.getFactorCost(prices, index, choice);
  for (unsigned slot = 0; slot < factor.variables.size(); ++slot)
    sum +=
        costs[index][slot][factor.roleOf[slot][choice[factor.variables[slot]]]];
  return sum;
}

double SumDual::getLeastUnary(unsigned variable) const {
  double best = kInfinity;
  for (unsigned value = 0; value < unaries[variable].size(); ++value)
    best = std::min(best, getUnary(variable, value));
  return best;
}

double SumDual::getLeastEntry(unsigned factor) {
  std::vector<double> marginals;
  getMarginals(factor, 0, costs[factor], marginals);
  double best = kInfinity;
  for (size_t i = 0; i < marginals.size(); ++i)
    best = std::min(best, marginals[i] + costs[factor][0][i]);
  return best;
}

double SumDual::getBound() {
  double bound = 0;
  for (unsigned i = 0; i < unaries.size(); ++i)
    bound += getLeastUnary(i);
  for (unsigned i = 0; i < costs.size(); ++i)
    bound += getLeastEntry(i);
  return bound;
}

std::vector<double> SumDual::getExcess(const std::vector<unsigned> &choice) {
  std::vector<double> excess;
  for (unsigned i = 0; i < unaries.size(); ++i)
    excess.push_back(getUnary(i, choice[i]) - getLeastUnary(i));
  for (unsigned i = 0; i < costs.size(); ++i) {
    double own = getEntry(i, choice) - getLeastEntry(i);
    for (unsigned variable : model.factors[i].variables)
      excess[variable] += own;
  }
  return excess;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

std::vector<unsigned> SumDual::round() {
  std::vector<std::vector<std::vector<double>>> offers = costs;
  std::vector<unsigned> choice;
  std::vector<double> marginals;
  for (unsigned i = 0; i < unaries.size(); ++i) {
    std::vector<double> sums = unaries[i];
    for (auto [factor, slot] : model.variables[i].slots) {
      getMarginals(factor, slot, offers[factor], marginals);
      for (size_t value = 0; value < sums.size(); ++value)
        sums[value] += marginals[model.factors[factor].roleOf[slot][value]];
    }
    choice.push_back(std::min_element(sums.begin(), sums.end()) - sums.begin());
    for (auto [factor, slot] : model.variables[i].slots) {
      std::vector<double> &offer = offers[factor][slot];
      unsigned role = model.factors[factor].roleOf[slot][choice.back()];
      for (unsigned j = 0; j < offer.size(); ++j)
        offer[j] = j == role ? 0 : 10 * model.forbidden;
      if (chains[factor])
        chains[factor]->change(slot);
    }
  }
  // The messages stand again.
  forgetOffers();
  return choice;
}

/// With all that its factors cost moved to a variable they cost nothing.
std::vector<std::vector<double>> SumDual::getLeast() {
  double bound = 0;
  std::vector<double> marginals, ofVariable, ofFactor;
  for (unsigned i = 0; i < unaries.size(); ++i)
    bound += ofVariable.emplace_back(getLeastUnary(i));
  for (unsigned i = 0; i < costs.size(); ++i)
    bound += ofFactor.emplace_back(getLeastEntry(i));
  std::vector<std::vector<double>> result;
  for (unsigned i = 0; i < unaries.size(); ++i) {
    std::vector<double> sums = unaries[i];
    double others = bound - ofVariable[i];
    for (auto [factor, slot] : model.variables[i].slots) {
      others -= ofFactor[factor];
      getMarginals(factor, slot, costs[factor], marginals);
      for (size_t value = 0; value < sums.size(); ++value)
        sums[value] += marginals[model.factors[factor].roleOf[slot][value]];
    }
    for (double &sum : sums)
      sum += others;
    result.push_back(std::move(sums));
  }
  return result;
}
