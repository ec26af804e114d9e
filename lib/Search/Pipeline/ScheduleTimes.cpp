//===- ScheduleTimes.cpp - the times of a schedule's operations -----------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScheduleTimes.h"
#include <algorithm>

using namespace tandem::pipeline::schedule;

Timer::Timer(const Model &model)
    : model(model), ends(model.numOperations), isFree(model.machines.size()),
      causes(model.numOperations), spots(model.numOperations),
      counts(model.letters.size()), positions(model.machines.size()),
      previous(model.machines.size()), firstWaiting(model.numOperations),
      nextWaiting(model.machines.size()), isDone(model.numOperations) {}

void Timer::wake(unsigned operation) {
  for (unsigned machine = firstWaiting[operation]; machine != kNone;
       machine = nextWaiting[machine])
    ready.push_back(machine);
  firstWaiting[operation] = kNone;
}

/// Runs a machine until it is at its end or has to wait.
void Timer::advance(const Rows &rows, unsigned machine) {
  const std::vector<unsigned> &row = rows[machine];
  for (unsigned &at = positions[machine]; at < row.size(); ++at) {
    const Letter &letter = model.letters[row[at]];
    unsigned index = counts[row[at]];
    unsigned operation = letter.first + index;
    double begin = isFree[machine];
    unsigned cause = previous[machine];
    for (const Arc &need : letter.needs) {
      unsigned needed = model.getNeeded(letter, index, need);
      if (!isDone[needed]) {
        nextWaiting[machine] = firstWaiting[needed];
        firstWaiting[needed] = machine;
        return;
      }
      double arrival = ends[needed] + need.seconds;
      if (arrival > begin) {
        begin = arrival;
        cause = needed;
      }
    }
    ++counts[row[at]];
    double seconds =
        model.samples.empty() ? letter.seconds : model.samples[last][operation];
    isFree[machine] = ends[operation] = begin + seconds;
    causes[operation] = cause;
    spots[operation] = {machine, at};
    previous[machine] = operation;
    isDone[operation] = true;
    wake(operation);
  }
}

bool Timer::run(const Rows &rows) {
  size_t number = std::max<size_t>(1, model.samples.size());
  cost = mean = 0;
  for (size_t i = 0; i < number; ++i) {
    last = (last + 1) % number;
    if (!runOnce(rows))
      return false;
    cost += costOfLast / static_cast<double>(number);
    mean += meanOfLast / static_cast<double>(number);
  }
  last = (last + 1) % number;
  return true;
}

bool Timer::runOnce(const Rows &rows) {
  std::fill(isDone.begin(), isDone.end(), false);
  std::fill(counts.begin(), counts.end(), 0);
  std::fill(positions.begin(), positions.end(), 0);
  std::fill(previous.begin(), previous.end(), kNone);
  std::fill(firstWaiting.begin(), firstWaiting.end(), kNone);
  ready.clear();
  for (unsigned machine = rows.size(); machine-- > 0;) {
    isFree[machine] = model.machines[machine].head;
    ready.push_back(machine);
  }
  while (!ready.empty()) {
    unsigned machine = ready.back();
    ready.pop_back();
    advance(rows, machine);
  }
  costOfLast = meanOfLast = 0;
  unsigned numUsed = 0;
  for (unsigned machine = 0; machine < rows.size(); ++machine) {
    if (positions[machine] < rows[machine].size())
      return false;
    if (rows[machine].empty())
      continue;
    double end = isFree[machine] + model.machines[machine].tail;
    costOfLast = std::max(costOfLast, end);
    meanOfLast += end;
    ++numUsed;
  }
  meanOfLast /= numUsed;
  return true;
}

void Timer::findCritical(std::vector<Spot> &critical) const {
  critical.clear();
  unsigned operation = kNone;
  for (unsigned machine = 0; machine < isFree.size(); ++machine)
    if (previous[machine] != kNone &&
        isFree[machine] + model.machines[machine].tail == costOfLast)
      operation = previous[machine];
  while (operation != kNone) {
    unsigned cause = causes[operation];
    if (cause != kNone && spots[cause].machine == spots[operation].machine &&
        spots[cause].index + 1 == spots[operation].index)
      critical.push_back(spots[operation]);
    operation = cause;
  }
}

bool tandem::pipeline::schedule::fitsLimit(const Model &model,
                                           const std::vector<unsigned> &row,
                                           double limit) {
  double held = 0;
  for (unsigned letter : row) {
    held += model.letters[letter].held.begin;
    if (!fits(held, limit))
      return false;
    held += model.letters[letter].held.end;
  }
  return true;
}

bool tandem::pipeline::schedule::fitsLimits(const Model &model,
                                            const Rows &rows) {
  for (unsigned machine = 0; machine < rows.size(); ++machine)
    if (!fitsLimit(model, rows[machine], model.machines[machine].limit))
      return false;
  return true;
}
