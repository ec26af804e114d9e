//===- Chain.cpp - copies of a tensor, one user after the other -----------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Sums/Chain.h"
#include <algorithm>
#include <bit>
#include <limits>
#include <unordered_map>

using namespace tandem::search;

bool FillWork::add(uint64_t number) {
  numSteps += number;
  if (numSteps >= nextQuestion && !ended) {
    nextQuestion = numSteps + kFillWork;
    ended = proceeds && !proceeds();
  }
  return !ended;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

namespace {
/// Adds a layout to a set, from the cheapest one that was there before.
struct Copier {
  const std::vector<double> &distances;
  unsigned numLayouts;
  double forbidden;

  /// Adds the seconds that are made, and that wait.
  void add(SumChain::Set &set, unsigned wanted, bool mayWait, bool beginsStage,
           double &made, double &waiting) const {
    if (beginsStage)
      set.old = set.all;
    if (set.all >> wanted & 1)
      return;
    double least = set.all == 0 ? 0 : forbidden;
    for (uint64_t left = set.old; left != 0; left &= left - 1)
      least = std::min(least,
                       distances[std::countr_zero(left) * numLayouts + wanted]);
    (mayWait && least < forbidden ? waiting : made) += least;
    set.all |= uint64_t(1) << wanted;
  }
};
} // namespace

namespace {
/// Takes layouts out of sets that nobody wants again, and that are no better a
/// source of any wanted layout than another one of the set.
class SourceFilter {
public:
  SourceFilter(const std::vector<double> &distances, unsigned numLayouts,
               uint64_t wanted)
      : numLayouts(numLayouts), wanted(wanted), better(numLayouts) {
    for (unsigned a = 0; a < numLayouts; ++a)
      for (unsigned b = 0; b < numLayouts; ++b)
        if (a != b && replaces(distances, b, a))
          better[a] |= uint64_t(1) << b;
  }

  void apply(SumChain::Set &set) const {
    for (uint64_t left = set.all & ~wanted; left != 0;) {
      unsigned layout = std::bit_width(left) - 1;
      uint64_t bit = uint64_t(1) << layout;
      left &= ~bit;
      if (better[layout] & (set.old & bit ? set.old : set.all)) {
        set.all &= ~bit;
        set.old &= ~bit;
      }
    }
  }

private:
  bool replaces(const std::vector<double> &distances, unsigned b,
                unsigned a) const {
    for (unsigned to = 0; to < numLayouts; ++to)
      if ((wanted >> to & 1) &&
          distances[b * numLayouts + to] > distances[a * numLayouts + to])
        return false;
    return true;
  }

  unsigned numLayouts;
  uint64_t wanted;
  /// Per layout those that are as good a source.
  std::vector<uint64_t> better;
};
} // namespace

namespace {
struct SetHash {
  size_t operator()(const SumChain::Set &set) const {
    uint64_t hash = set.all * 0x9e3779b97f4a7c15 ^ set.old;
    return (hash ^ hash >> 32) * 0x9e3779b97f4a7c15 >> 16;
  }
};
} // namespace

/// The layouts that slots want from one on.
static uint64_t listWanted(const std::vector<SumChain::Slot> &slots,
                           size_t first) {
  uint64_t wanted = 0;
  for (size_t i = first; i < slots.size(); ++i)
    for (const std::vector<unsigned> &role : slots[i].roles)
      for (unsigned layout : role)
        wanted |= uint64_t(1) << layout;
  return wanted;
}

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
                    double forbidden, uint64_t maxSteps, FillWork &work) {
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
    std::unordered_map<Set, unsigned, SetHash> known;
    Steps &own = steps.emplace_back();
    SourceFilter filter(distances, numLayouts, listWanted(slots, place + 1));
    for (const Set &before : sets) {
      if (!work.add(slot.roles.size()))
        return false;
      for (const std::vector<unsigned> &role : slot.roles) {
        Set set = before;
        double seconds = 0, waits = 0;
        for (size_t i = 0; i < role.size(); ++i)
          copier.add(set, role[i], slot.mayWait[i], slot.beginsStage[i],
                     seconds, waits);
        if (slots[place + 1].beginsStage.front())
          set.old = set.all;
        filter.apply(set);
        auto [entry, isNew] = known.try_emplace(set, next.size());
        if (isNew)
          next.push_back(set);
        own.next.push_back(entry->second);
        own.made.push_back(std::min(seconds, forbidden));
        own.waiting.push_back(waits);
      }
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
    const Steps &all = steps[slot];
    Steps &own = result.steps.emplace_back();
    for (unsigned set : sets)
      for (unsigned role : kept[slot]) {
        size_t step = set * size_t(sizes[slot]) + role;
        unsigned &number = numberOf[all.next[step]];
        if (number == ~0u) {
          number = next.size();
          next.push_back(all.next[step]);
        }
        own.next.push_back(number);
        own.made.push_back(all.made[step]);
        own.waiting.push_back(all.waiting[step]);
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
  for (const Steps &own : steps)
    count += own.next.size();
  return count;
}

std::pair<double, double>
SumChain::getSeconds(const std::vector<unsigned> &roles) const {
  std::pair<double, double> sum, last(kInfinity, 0);
  unsigned set = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    size_t step = set * size_t(sizes[i]) + roles[i];
    sum.first += steps[i].made[step];
    sum.second += steps[i].waiting[step];
    set = steps[i].next[step];
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
    : chain(&chain), before(chain.sizes.size()), behind(chain.sizes.size()),
      firstBehind(chain.sizes.size()),
      ofLayouts(chain.made.size() / chain.sizes.back()) {
  before.front() = {0};
  unsigned count = 0;
  for (unsigned size : chain.sizes) {
    firstOffers.push_back(count);
    count += size;
  }
  setPrice(waitingPrice);
}

void ChainMarginals::setPrice(double waitingPrice) {
  auto add = [&](const auto &steps, std::vector<double> &sums) {
    sums.resize(steps.made.size());
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i] = steps.made[i] + waitingPrice * steps.waiting[i];
  };
  costs.resize(chain->steps.size());
  for (size_t slot = 0; slot < costs.size(); ++slot)
    add(chain->steps[slot], costs[slot]);
  add(*chain, lastCosts);
  forget();
}

void ChainMarginals::change(unsigned slot) {
  numBefore = std::min(numBefore, slot + 1);
  firstBehind = std::max(firstBehind, slot + 1);
}

void ChainMarginals::forget() {
  numBefore = 1;
  firstBehind = chain->sizes.size();
}

/// The last slot: the least over the sets with a layout, then over layouts.
void ChainMarginals::getLast(double *result) {
  unsigned width = chain->sizes.back();
  const std::vector<double> &sums = before.back();
  std::fill(ofLayouts.begin(), ofLayouts.end(), kInfinity);
  for (size_t set = 0; set < sums.size(); ++set)
    for (unsigned i = chain->firstMembers[set];
         i < chain->firstMembers[set + 1]; ++i) {
      double &least = ofLayouts[chain->members[i]];
      least = std::min(least, sums[set]);
    }
  std::fill_n(result, width, kInfinity);
  const double *cost = lastCosts.data();
  for (double sum : ofLayouts)
    for (unsigned role = 0; role < width; ++role)
      result[role] = std::min(result[role], sum + *cost++);
}

/// What the last slot costs behind each set.
void ChainMarginals::beginBack(const double *offers) {
  unsigned width = chain->sizes.back();
  const double *cost = lastCosts.data();
  for (double &sum : ofLayouts) {
    double least = kInfinity;
    for (unsigned role = 0; role < width; ++role)
      least = std::min(least, offers[role] + *cost++);
    sum = least;
  }
  std::vector<double> &sums = behind.back();
  sums.resize(chain->numSets.back());
  for (size_t set = 0; set < sums.size(); ++set) {
    double least = kInfinity;
    for (unsigned i = chain->firstMembers[set];
         i < chain->firstMembers[set + 1]; ++i)
      least = std::min(least, ofLayouts[chain->members[i]]);
    sums[set] = least;
  }
  --firstBehind;
}

/// What the next slot more costs, and those behind it.
void ChainMarginals::goBack(const double *offers) {
  const std::vector<double> &after = behind[firstBehind--];
  const unsigned *next = chain->steps[firstBehind].next.data();
  const double *cost = costs[firstBehind].data();
  std::vector<double> &sums = behind[firstBehind];
  sums.resize(chain->numSets[firstBehind]);
  unsigned width = chain->sizes[firstBehind];
  for (double &sum : sums) {
    double least = kInfinity;
    for (unsigned role = 0; role < width; ++role)
      least = std::min(least, after[*next++] + offers[role] + *cost++);
    sum = least;
  }
}

/// What the slots up to one more cost.
void ChainMarginals::goOn(const double *offers) {
  const unsigned *next = chain->steps[numBefore - 1].next.data();
  const double *cost = costs[numBefore - 1].data();
  std::vector<double> &sums = before[numBefore];
  sums.assign(chain->numSets[numBefore], kInfinity);
  unsigned width = chain->sizes[numBefore - 1];
  for (double sum : before[numBefore - 1])
    for (unsigned role = 0; role < width; ++role) {
      double &least = sums[*next++];
      least = std::min(least, sum + offers[role] + *cost++);
    }
  ++numBefore;
}

void ChainMarginals::get(unsigned slot, const double *offers, double *result) {
  auto getOffers = [&](unsigned of) { return offers + firstOffers[of]; };
  while (numBefore <= slot)
    goOn(getOffers(numBefore - 1));
  unsigned last = chain->sizes.size() - 1;
  if (slot == last) {
    getLast(result);
    return;
  }
  if (firstBehind > last)
    beginBack(getOffers(last));
  while (firstBehind > slot + 1)
    goBack(getOffers(firstBehind - 1));
  unsigned width = chain->sizes[slot];
  std::fill_n(result, width, kInfinity);
  const unsigned *next = chain->steps[slot].next.data();
  const double *cost = costs[slot].data();
  const double *after = behind[slot + 1].data();
  for (double sum : before[slot])
    for (unsigned role = 0; role < width; ++role)
      result[role] = std::min(result[role], sum + after[*next++] + *cost++);
}
