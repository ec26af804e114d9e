//===- Anneal.cpp - simulated annealing -----------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Simulated annealing (Kirkpatrick, Gelatt, Vecchi 1983) over forms, cuts and
// copies at once. The numbers are pseudo-random and the same in each run.
//
//===----------------------------------------------------------------------===//

#include "Tandem/Improve/Improve.h"
#include "Tandem/Limits.h"
#include <cmath>

using namespace tandem::cost;
using namespace tandem::search;

namespace {
/// SplitMix64 (Steele, Lea, Flood 2014).
class Numbers {
public:
  explicit Numbers(uint64_t seed) : state(seed) {}

  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// In (0, 1].
  double real() { return (static_cast<double>(next() >> 11) + 1) * 0x1p-53; }

private:
  uint64_t state;
};
} // namespace

/// Changes something at random. False if that is no plan, or no change.
bool PlanImprover::change(double choice, uint64_t number, bool hasPair) {
  if (choice < kFormShare) {
    const Unit &unit = units[choosable[number % choosable.size()]];
    number /= choosable.size();
    unsigned value =
        (getValue(unit) + 1 + number % (unit.numValues - 1)) % unit.numValues;
    if (!editor.setSignatures(unit.operators, value))
      return false;
    const std::vector<unsigned> &next = unit.neighbours;
    if (hasPair && !next.empty())
      editor.settleSignatures(
          units[next[(number >> 16) % next.size()]].operators);
    return true;
  }
  if (choice < kFormShare + kCutShare) {
    unsigned numOperators = problem.operators.size();
    unsigned op = number % numOperators;
    if (!editor.mayChangeCut(op))
      return false;
    number /= numOperators;
    bool cuts = editor.hasCut(op);
    if (!editor.setCut(op, !cuts))
      return false;
    if (number % 2 == 0)
      return true;
    // The next cut, before or behind, moves here; or this one there.
    unsigned distance = 1 + (number / 4) % 4;
    unsigned to = number / 2 % 2 ? op + distance : op - distance;
    return to < numOperators && editor.mayChangeCut(to) &&
           editor.hasCut(to) != cuts && editor.setCut(to, cuts);
  }
  std::vector<Copy> copies =
      number % 2 ? editor.listKeepable() : editor.listWaitable();
  if (copies.empty())
    return false;
  const Copy &copy = copies[number / 2 % copies.size()];
  return number % 2 ? editor.toggleKept(copy) : editor.toggleWaiting(copy);
}

Plan PlanImprover::anneal(const Plan &plan, double heat, uint64_t &work,
                          const std::function<bool()> &mayProceed) {
  proceeds = &mayProceed;
  choosable.clear();
  for (unsigned i = 0; i < units.size(); ++i)
    if (units[i].numValues > 1)
      choosable.push_back(i);
  if (choosable.empty())
    return plan;
  editor.set(plan);
  Score score = editor.getScore();
  bool isTooLarge = score.excess > 0;
  double perSecond = (isTooLarge ? kLargeSeconds : 1) / score.seconds;
  double perByte = (isTooLarge ? 1 : kMemoryPrice) /
                   static_cast<double>(problem.memoryLimit);
  auto getEnergy = [&](const Score &score) {
    return perSecond * score.seconds +
           perByte * static_cast<double>(score.excess);
  };
  double energy = getEnergy(score);
  // Each call goes another way.
  Numbers numbers(numAnnealed++);
  uint64_t before = editor.getWork();
  limit = before + work;
  // Where nothing fits, the first plan that does is enough.
  while (mayGoOn() && !(isTooLarge && score.excess == 0)) {
    double done = static_cast<double>(editor.getWork() - before) /
                  static_cast<double>(work);
    double now = heat * std::pow(kCold, done);
    PlanEditor::Mark mark = editor.mark();
    bool hasPair =
        numbers.real() < kPairShare && graph.facts.does(Mechanism::Pairs);
    double kind = numbers.real();
    uint64_t which = numbers.next();
    if (!change(kind, which, hasPair)) {
      editor.undo(mark);
      continue;
    }
    Score changed = editor.getScore();
    double next = getEnergy(changed);
    if (next > energy - now * std::log(numbers.real())) {
      editor.undo(mark);
      continue;
    }
    energy = next;
    score = changed;
    editor.keep();
  }
  work -= std::min(work, editor.getWork() - before);
  return editor.getPlan();
}
