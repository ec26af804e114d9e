//===- TandemChain.cpp - copies of a tensor, one user after the other -----===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TandemChain.h"
#include <algorithm>
#include <limits>
#include <map>

using namespace tandem::search;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

namespace {
/// Adds a layout to a set, from the cheapest one that was there before.
struct Copier {
  const std::vector<double> &distances;
  unsigned numLayouts;
  double forbidden;

  void add(SumChain::Set &set, unsigned wanted, bool mayWait, bool beginsStage,
           SumChain::Step &step) const {
    if (beginsStage)
      set.old = set.all;
    if (set.all >> wanted & 1)
      return;
    double least = set.all == 0 ? 0 : forbidden;
    for (unsigned from = 0; from < numLayouts; ++from)
      if (set.old >> from & 1)
        least = std::min(least, distances[from * numLayouts + wanted]);
    (mayWait && least < forbidden ? step.waiting : step.made) += least;
    set.all |= uint64_t(1) << wanted;
  }
};
} // namespace

/// Where the sets' layouts are, and what the last slot makes of each.
void SumChain::fillLast(const Slot &slot, const std::vector<Set> &sets,
                        const std::vector<double> &distances,
                        unsigned numLayouts, double forbidden) {
  numSets.push_back(sets.size());
  sizes.push_back(slot.roles.size());
  bool hasNew = !slot.beginsStage.front();
  for (Set set : sets) {
    uint64_t old = hasNew ? set.old : set.all;
    firstMembers.push_back(members.size());
    for (unsigned layout = 0; layout < numLayouts; ++layout)
      if (set.all >> layout & 1)
        members.push_back(old >> layout & 1 ? layout : numLayouts + layout);
  }
  firstMembers.push_back(members.size());
  for (unsigned from = 0; from < (hasNew ? 2 : 1) * numLayouts; ++from)
    for (const std::vector<unsigned> &role : slot.roles) {
      double seconds = from < numLayouts
                           ? distances[from * numLayouts + role.front()]
                       : from - numLayouts == role.front() ? 0
                                                           : forbidden;
      bool waits = slot.mayWait.front() && seconds < forbidden;
      made.push_back(waits ? 0 : seconds);
      waiting.push_back(waits ? seconds : 0);
    }
}

bool SumChain::fill(const std::vector<Slot> &slots,
                    const std::vector<double> &distances, unsigned numLayouts,
                    double forbidden, uint64_t maxSteps) {
  if (slots.back().mayWait.size() != 1)
    return false;
  Copier copier{distances, numLayouts, forbidden};
  std::vector<Set> sets = {{0, 0}};
  uint64_t count = 0;
  for (size_t place = 0; place + 1 < slots.size(); ++place) {
    const Slot &slot = slots[place];
    numSets.push_back(sets.size());
    sizes.push_back(slot.roles.size());
    if ((count += sets.size() * slot.roles.size()) > maxSteps)
      return false;
    std::vector<Set> next;
    std::map<Set, unsigned> known;
    std::vector<Step> &all = steps.emplace_back();
    for (const Set &before : sets)
      for (const std::vector<unsigned> &role : slot.roles) {
        Set set = before;
        Step step{0, 0, 0};
        for (size_t i = 0; i < role.size(); ++i)
          copier.add(set, role[i], slot.mayWait[i], slot.beginsStage[i], step);
        if (slots[place + 1].beginsStage.front())
          set.old = set.all;
        step.made = std::min(step.made, forbidden);
        auto [entry, isNew] = known.try_emplace(set, next.size());
        if (isNew)
          next.push_back(set);
        step.next = entry->second;
        all.push_back(step);
      }
    sets = std::move(next);
  }
  fillLast(slots.back(), sets, distances, numLayouts, forbidden);
  return getNumSteps() <= maxSteps;
}

/// Only sets that can still be reached are left.
SumChain
    SumChain::restrict(const std::vector<std::vector<unsigned>> &kept) const {
  SumChain result;
  std::vector<unsigned> sets = {0};
  for (size_t slot = 0; slot < steps.size(); ++slot) {
    result.numSets.push_back(sets.size());
    result.sizes.push_back(kept[slot].size());
    std::vector<unsigned> next, numberOf(numSets[slot + 1], ~0u);
    std::vector<Step> &all = result.steps.emplace_back();
    for (unsigned set : sets)
      for (unsigned role : kept[slot]) {
        Step step = steps[slot][set * size_t(sizes[slot]) + role];
        unsigned &number = numberOf[step.next];
        if (number == ~0u) {
          number = next.size();
          next.push_back(step.next);
        }
        step.next = number;
        all.push_back(step);
      }
    sets = std::move(next);
  }
  result.numSets.push_back(sets.size());
  result.sizes.push_back(kept.back().size());
  for (unsigned set : sets) {
    result.firstMembers.push_back(result.members.size());
    result.members.insert(result.members.end(),
                          members.begin() + firstMembers[set],
                          members.begin() + firstMembers[set + 1]);
  }
  result.firstMembers.push_back(result.members.size());
  for (size_t from = 0; from < made.size(); from += sizes.back())
    for (unsigned role : kept.back()) {
      result.made.push_back(made[from + role]);
      result.waiting.push_back(waiting[from + role]);
    }
  return result;
}

uint64_t SumChain::getNumSteps() const {
  uint64_t count = members.size() + made.size();
  for (const std::vector<Step> &own : steps)
    count += own.size();
  return count;
}

std::pair<double, double>
SumChain::getSeconds(const std::vector<unsigned> &roles) const {
  std::pair<double, double> sum, last(kInfinity, 0);
  unsigned set = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step &step = steps[i][set * size_t(sizes[i]) + roles[i]];
    sum.first += step.made;
    sum.second += step.waiting;
    set = step.next;
  }
  for (unsigned i = firstMembers[set]; i < firstMembers[set + 1]; ++i) {
    size_t place = members[i] * size_t(sizes.back()) + roles.back();
    if (made[place] + waiting[place] < last.first + last.second)
      last = {made[place], waiting[place]};
  }
  return {sum.first + last.first, sum.second + last.second};
}

//===----------------------------------------------------------------------===//
// Marginals
//===----------------------------------------------------------------------===//

ChainMarginals::ChainMarginals(const SumChain &chain, double waitingPrice)
    : chain(&chain) {
  for (const std::vector<SumChain::Step> &steps : chain.steps) {
    std::vector<double> &own = costs.emplace_back();
    for (const SumChain::Step &step : steps)
      own.push_back(step.made + waitingPrice * step.waiting);
  }
  for (size_t i = 0; i < chain.made.size(); ++i)
    lastCosts.push_back(chain.made[i] + waitingPrice * chain.waiting[i]);
}

/// The least over the sets with a layout, then over layouts.
void ChainMarginals::getLast(const std::vector<double> &before,
                             std::vector<double> &result) const {
  size_t width = chain->sizes.back();
  std::vector<double> with(chain->made.size() / width, kInfinity);
  for (size_t set = 0; set < before.size(); ++set)
    for (unsigned i = chain->firstMembers[set];
         i < chain->firstMembers[set + 1]; ++i) {
      double &least = with[chain->members[i]];
      least = std::min(least, before[set]);
    }
  result.assign(width, kInfinity);
  const double *cost = lastCosts.data();
  for (double sum : with)
    for (double &least : result)
      least = std::min(least, sum + *cost++);
}

/// What the last slot costs behind each set.
void ChainMarginals::getBehindAll(const std::vector<double> &offers,
                                  std::vector<double> &behind) const {
  std::vector<double> from(chain->made.size() / offers.size(), kInfinity);
  const double *cost = lastCosts.data();
  for (double &least : from)
    for (double offer : offers)
      least = std::min(least, offer + *cost++);
  behind.assign(chain->numSets.back(), kInfinity);
  for (size_t set = 0; set < behind.size(); ++set)
    for (unsigned i = chain->firstMembers[set];
         i < chain->firstMembers[set + 1]; ++i)
      behind[set] = std::min(behind[set], from[chain->members[i]]);
}

void ChainMarginals::get(unsigned slot,
                         const std::vector<std::vector<double>> &offers,
                         std::vector<double> &result) const {
  std::vector<double> before = {0}, behind, next;
  for (unsigned i = 0; i < slot; ++i) {
    next.assign(chain->numSets[i + 1], kInfinity);
    const SumChain::Step *step = chain->steps[i].data();
    const double *cost = costs[i].data();
    for (double sum : before)
      for (double offer : offers[i]) {
        double &least = next[step++->next];
        least = std::min(least, sum + offer + *cost++);
      }
    before.swap(next);
  }
  if (slot + 1 == chain->sizes.size()) {
    getLast(before, result);
    return;
  }
  getBehindAll(offers.back(), behind);
  for (unsigned i = chain->steps.size() - 1; i > slot; --i) {
    next.assign(chain->numSets[i], kInfinity);
    const SumChain::Step *step = chain->steps[i].data();
    const double *cost = costs[i].data();
    for (double &least : next)
      for (double offer : offers[i])
        least = std::min(least, behind[step++->next] + offer + *cost++);
    behind.swap(next);
  }
  result.assign(chain->sizes[slot], kInfinity);
  const SumChain::Step *step = chain->steps[slot].data();
  const double *cost = costs[slot].data();
  for (double sum : before)
    for (double &least : result)
      least = std::min(least, sum + behind[step++->next] + *cost++);
}

std::vector<double> ChainMarginals::getEntries() const {
  std::vector<double> sums = {0}, moreSums;
  std::vector<unsigned> sets = {0}, moreSets;
  for (size_t slot = 0; slot < chain->steps.size(); ++slot) {
    size_t width = chain->sizes[slot];
    moreSums.clear();
    moreSets.clear();
    for (size_t i = 0; i < sums.size(); ++i)
      for (size_t place = sets[i] * width; place < (sets[i] + 1) * width;
           ++place) {
        moreSums.push_back(sums[i] + costs[slot][place]);
        moreSets.push_back(chain->steps[slot][place].next);
      }
    sums.swap(moreSums);
    sets.swap(moreSets);
  }
  size_t width = chain->sizes.back();
  std::vector<double> result(sums.size() * width, kInfinity);
  for (size_t i = 0; i < sums.size(); ++i)
    for (unsigned j = chain->firstMembers[sets[i]];
         j < chain->firstMembers[sets[i] + 1]; ++j) {
      const double *cost = lastCosts.data() + chain->members[j] * width;
      for (size_t role = 0; role < width; ++role) {
        double &least = result[i * width + role];
        least = std::min(least, sums[i] + cost[role]);
      }
    }
  return result;
}
