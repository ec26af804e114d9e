//===- ScheduleList.cpp - list scheduling of a schedule -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScheduleList.h"
#include <algorithm>
#include <cassert>

using namespace tandem::pipeline::schedule;

ListScheduler::ListScheduler(const Model &model)
    : model(model), counts(model.letters.size()), ends(model.numOperations),
      isFree(model.machines.size()), held(model.machines.size()),
      idle(model.machines.size()), candidates(model.machines.size()),
      isStale(model.machines.size()), releases(model.numOperations) {}

/// When all is there that an operation needs.
double ListScheduler::getReady(const Letter &letter, unsigned index) const {
  double ready = 0;
  for (const Arc &need : letter.needs) {
    unsigned needed = model.getNeeded(letter, index, need);
    if (counts[need.letter] <= needed - model.letters[need.letter].first)
      return kNever;
    ready = std::max(ready, ends[needed] + need.seconds);
  }
  return ready;
}

/// Whether the microbatches of a machine can end one after the other, if
/// `number` comes next: no machine ever waits for room that others hold, if
/// this is so for each. The oldest one may always go on.
bool ListScheduler::drains(unsigned number) {
  const Machine &machine = model.machines[model.letters[number].machine];
  double now = held[model.letters[number].machine];
  auto step = [&](const Letter &letter) {
    ++numVisited;
    now += letter.held.begin;
    bool isFine = fits(now, machine.limit);
    now += letter.held.end;
    return isFine;
  };
  auto getCount = [&](unsigned letter) {
    return counts[letter] + (letter == number);
  };
  if (!step(model.letters[number]))
    return false;
  unsigned first = model.numMicrobatches, last = 0;
  for (unsigned letter : machine.letters) {
    first = std::min(first, getCount(letter));
    last = std::max(last, getCount(letter));
  }
  for (unsigned index = first; index < last; ++index) {
    for (unsigned letter : machine.letters)
      if (getCount(letter) <= index && !step(model.letters[letter]))
        return false;
    if (fits(now + machine.alone, machine.limit))
      return true;
  }
  return true;
}

/// Whether there is a way to the end behind an operation.
bool ListScheduler::isSafe(unsigned number) {
  const Letter &letter = model.letters[number];
  const Machine &machine = model.machines[letter.machine];
  double now = held[letter.machine] + letter.held.begin;
  if (!fits(now, machine.limit))
    return false;
  if (letter.held.begin + letter.held.end <= 0)
    return true;
  return fits(now + letter.held.end + machine.alone, machine.limit) ||
         drains(number);
}

/// The letters of a machine that could come next, with their begins and keys.
template <typename Visit>
void ListScheduler::forEachNext(unsigned number,
                                const std::vector<double> &keys,
                                const Visit &visit) {
  for (unsigned letter : model.machines[number].letters) {
    unsigned index = counts[letter];
    ++numVisited;
    if (index == model.letters[letter].count)
      continue;
    double ready = getReady(model.letters[letter], index);
    if (ready == kNever)
      continue;
    unsigned operation = model.letters[letter].first + index;
    if (isSafe(letter))
      visit(letter, std::max({isFree[number], ready, releases[operation]}),
            keys[operation]);
  }
}

void ListScheduler::choose(unsigned number, const std::vector<double> &keys,
                           double wait) {
  Candidate best;
  double key = kNever;
  forEachNext(number, keys, [&](unsigned letter, double begin, double its) {
    if (begin < best.begin || (begin == best.begin && its < key)) {
      key = its;
      best = {letter, begin};
    }
  });
  if (best.letter != kNone && wait > 0) {
    double latest =
        std::min(best.begin + wait * model.letters[best.letter].seconds,
                 isFree[number] + mostIdle - idle[number]);
    forEachNext(number, keys, [&](unsigned letter, double begin, double its) {
      if (begin <= latest && its < key) {
        key = its;
        best = {letter, begin};
      }
    });
  }
  candidates[number] = best;
  isStale[number] = false;
}

void ListScheduler::run(unsigned number, double begin) {
  const Letter &letter = model.letters[number];
  bool hasBegun = isFree[letter.machine] > model.machines[letter.machine].head;
  if (hasBegun)
    idle[letter.machine] += begin - isFree[letter.machine];
  isFree[letter.machine] = ends[letter.first + counts[number]] =
      begin + letter.seconds;
  ++counts[number];
  held[letter.machine] += letter.held.begin + letter.held.end;
  isStale[letter.machine] = true;
  for (const Arc &feed : letter.feeds)
    isStale[model.letters[feed.letter].machine] = true;
}

Rows ListScheduler::run(const std::vector<double> &keys, double wait,
                        double itsMostIdle,
                        const std::vector<double> *itsReleases) {
  mostIdle = itsMostIdle;
  std::fill(idle.begin(), idle.end(), 0);
  if (itsReleases)
    releases = *itsReleases;
  else
    std::fill(releases.begin(), releases.end(), 0);
  std::fill(counts.begin(), counts.end(), 0);
  std::fill(held.begin(), held.end(), 0);
  std::fill(isStale.begin(), isStale.end(), true);
  for (unsigned i = 0; i < model.machines.size(); ++i)
    isFree[i] = model.machines[i].head;
  Rows rows(model.machines.size());
  for (unsigned done = 0; done < model.numOperations; ++done) {
    unsigned next = 0;
    for (unsigned i = 0; i < candidates.size(); ++i) {
      if (isStale[i])
        choose(i, keys, wait);
      if (candidates[i].begin < candidates[next].begin)
        next = i;
    }
    unsigned letter = candidates[next].letter;
    assert(letter != kNone && "expected a safe operation");
    rows[next].push_back(letter);
    run(letter, candidates[next].begin);
  }
  return rows;
}
