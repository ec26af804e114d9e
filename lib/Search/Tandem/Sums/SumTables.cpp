//===- SumTables.cpp - cost tables of sums --------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Limits.h"
#include "Tandem/Sums/Sum.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

/// Layouts by number, and seconds between them.
void SumModel::fillDistances(unsigned tensor, const AllRoles &all,
                             std::map<Layout, unsigned> &numberOf) {
  std::vector<Layout> layouts;
  for (const std::vector<SumRoles> &roles : all)
    for (const SumRoles &own : roles)
      for (const Layout &layout : own)
        if (numberOf.try_emplace(layout, layouts.size()).second)
          layouts.push_back(layout);
  numLayouts = layouts.size();
  distances.clear();
  for (const Layout &from : layouts)
    for (const Layout &to : layouts) {
      const ChangeCost &change = changes.getCost(tensor, from, to);
      distances.push_back(from == to ? 0
                          : change.isPossible
                              ? change.getTotal(facts.numStrands)
                              : forbidden);
    }
}

/// False if the slots' users do not come one after the other, if there would be
/// too many steps, or if the making has to end.
bool SumModel::fillChain(SumTable &table, const AllRoles &all,
                         const std::vector<Role> &order, uint64_t maxSteps,
                         std::map<Layout, unsigned> &numberOf) {
  auto isBefore = [](const Role &a, const Role &b) { return a.slot < b.slot; };
  if (numLayouts > SumChain::kMaxLayouts || all.size() < kMinChain ||
      !std::is_sorted(order.begin(), order.end(), isBefore))
    return false;
  std::vector<SumChain::Slot> slots;
  for (const std::vector<SumRoles> &roles : all) {
    SumChain::Slot &slot = slots.emplace_back();
    for (const SumRoles &own : roles) {
      std::vector<unsigned> &numbers = slot.roles.emplace_back();
      for (const Layout &layout : own)
        numbers.push_back(numberOf[layout]);
    }
  }
  for (const Role &role : order) {
    slots[role.slot].mayWait.push_back(role.mayWait);
    slots[role.slot].beginsStage.push_back(role.beginsStage);
  }
  SumChain chain;
  if (!chain.fill(slots, distances, numLayouts, forbidden, maxSteps, fillWork))
    return false;
  table.chain = std::move(chain);
  return true;
}

bool SumModel::fillTable(unsigned tensor, const AllRoles &all,
                         const std::vector<Role> &order) {
  SumTable &table = tables.emplace_back();
  double combinations = 1;
  for (const std::vector<SumRoles> &roles : all) {
    table.sizes.push_back(roles.size());
    combinations *= static_cast<double>(roles.size());
  }
  table.waits = std::any_of(order.begin(), order.end(),
                            [](const Role &role) { return role.mayWait; });
  std::map<Layout, unsigned> numberOf;
  fillDistances(tensor, all, numberOf);
  double left = static_cast<double>(maxEntries - numEntries);
  uint64_t maxSteps = std::min(combinations / kChainGain, left);
  if (fillChain(table, all, order, maxSteps, numberOf)) {
    numEntries += table.getSize();
    return true;
  }
  if (combinations > left || fillWork.isEnded())
    return false;
  uint64_t size = combinations;
  numEntries += size;
  table.made.reserve(size);
  if (table.waits)
    table.waiting.reserve(size);
  std::vector<unsigned> place(table.sizes.size()), chosen(order.size()), copies;
  for (uint64_t entry = 0; entry < size; ++entry) {
    if (!fillWork.add(1))
      return false;
    for (unsigned i = 0; i < order.size(); ++i)
      chosen[i] =
          numberOf[all[order[i].slot][place[order[i].slot]][order[i].index]];
    addEntry(table, chosen, order, copies);
    for (unsigned slot = place.size(); slot-- > 0;) {
      if (++place[slot] < table.sizes[slot])
        break;
      place[slot] = 0;
    }
  }
  return true;
}

/// Copies are made in the order of their first uses, from what was there before
/// the stage; within one, no layout becomes another. One
/// that may wait starts from what was produced; where another source would be
/// cheaper, the lesser seconds at the lesser price are charged, which no choice
/// undercuts.
void SumModel::addEntry(SumTable &table, const std::vector<unsigned> &layouts,
                        const std::vector<Role> &order,
                        std::vector<unsigned> &copies) const {
  double made = 0, waiting = 0;
  copies.assign(1, layouts.front());
  size_t numOld = 0;
  for (size_t i = 1; i < layouts.size(); ++i) {
    unsigned wanted = layouts[i];
    if (order[i].beginsStage)
      numOld = copies.size();
    if (std::find(copies.begin(), copies.end(), wanted) != copies.end())
      continue;
    double least = forbidden;
    for (size_t j = 0; j < numOld; ++j)
      least = std::min(least, distances[copies[j] * numLayouts + wanted]);
    (order[i].mayWait && least < forbidden ? waiting : made) += least;
    copies.push_back(wanted);
  }
  table.made.push_back(std::min(made, forbidden));
  if (table.waits)
    table.waiting.push_back(waiting);
}

std::pair<double, double>
SumTable::getSeconds(const std::vector<unsigned> &roles) const {
  if (chain)
    return chain->getSeconds(roles);
  uint64_t entry = 0;
  for (size_t slot = 0; slot < roles.size(); ++slot)
    entry = entry * sizes[slot] + roles[slot];
  return {made[entry], waits ? waiting[entry] : 0};
}

//===----------------------------------------------------------------------===//
// Seconds
//===----------------------------------------------------------------------===//

double SumModel::getUnary(const SumPrices &prices, unsigned variable,
                          unsigned value) const {
  double sum = 0;
  unsigned signature = variables[variable].values[value];
  for (unsigned op : variables[variable].operators)
    if (!facts.isArgument(op))
      sum += prices.computation[op] *
             facts.problem.getSignatures(op)[signature].seconds;
  return sum;
}

double SumModel::getCost(const SumPrices &prices,
                         const std::vector<unsigned> &choice) const {
  double sum = 0;
  for (unsigned i = 0; i < variables.size(); ++i)
    sum += getUnary(prices, i, choice[i]);
  for (unsigned i = 0; i < factors.size(); ++i)
    sum += getFactorCost(prices, i, choice);
  return sum;
}

std::pair<double, double>
SumModel::getFactorSeconds(unsigned index,
                           const std::vector<unsigned> &choice) const {
  const SumFactor &factor = factors[index];
  std::vector<unsigned> roles;
  for (const SumSlot &slot : factor.slots)
    roles.push_back(slot.roleOf[choice[slot.variable]]);
  return tables[factor.table].getSeconds(roles);
}

double SumModel::getFactorCost(const SumPrices &prices, unsigned factor,
                               const std::vector<unsigned> &choice) const {
  auto [made, waiting] = getFactorSeconds(factor, choice);
  return made + getWaitingPrice(prices, factor) * waiting;
}

std::vector<double> SumModel::getEntries(const SumPrices &prices,
                                         unsigned factor) const {
  const SumTable &table = tables[factors[factor].table];
  double price = getWaitingPrice(prices, factor);
  std::vector<double> result = table.made;
  for (size_t i = 0; i < table.waiting.size(); ++i)
    result[i] += price * table.waiting[i];
  return result;
}
