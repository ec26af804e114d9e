//===- HeldLine.cpp - what an edited plan holds ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Improve/HeldLine.h"
#include <algorithm>

using namespace tandem::search;

void HeldLine::reset(size_t numOperators) {
  operators.assign(numOperators, OperatorBytes());
  argumentBytes = 0;
  isTouched.assign(numOperators, false);
  touched.clear();
  atOperators.resize(numOperators);
}

void HeldLine::touch(unsigned op) {
  if (isTouched[op])
    return;
  isTouched[op] = true;
  touched.push_back(op);
}

void HeldLine::add(const HeldEntry &entry, int sign) {
  operators[entry.op].*entry.member += sign * entry.bytes;
  touch(entry.op);
}

void HeldLine::setOperator(unsigned op, int64_t workspace, bool isOverTime) {
  operators[op].workspace = workspace;
  operators[op].isOverTime = isOverTime;
  touch(op);
}

/// Goes over a stage, behind which `level` is held; gives the next one.
unsigned HeldLine::walk(unsigned stage, Level &level) {
  unsigned end = plan.nextStage[stage];
  auto first = operators.begin() + stage, last = operators.begin() + end;
  // Strands one after the other hold together all that is there at some time.
  bool isWhole = std::any_of(
      first, last, [](const OperatorBytes &bytes) { return bytes.isOverTime; });
  int64_t alive = level.alive, once = level.once, terms = 0, gone = 0, late = 0;
  for (auto bytes = first; bytes != last; ++bytes) {
    alive += bytes->copyShares;
    once += bytes->copyBirths + (isWhole ? bytes->births : 0);
    late += bytes->lateBirths;
  }
  int64_t atBegin = alive;
  for (unsigned op = stage; op < end; ++op) {
    const OperatorBytes &bytes = operators[op];
    alive += bytes.shares;
    terms += bytes.termShares;
    once += isWhole ? 0 : bytes.births;
    atOperators[op] = alive + terms + once + bytes.workspace;
    alive -= bytes.goneShares;
    (isWhole ? gone : once) -= bytes.deaths;
  }
  // What the other strands hold.
  int64_t beside = (numStrands - 1) * std::max(atBegin, alive + terms);
  for (unsigned op = stage; op < end; ++op)
    atOperators[op] += beside;
  level = {alive, once + late + gone};
  return end;
}

void HeldLine::keep() {
  unsigned numOperators = operators.size();
  keptOperators = operators;
  ofOperators.resize(numOperators);
  ofStages.clear();
  numberOf.assign(numOperators + 1, 0);
  before.assign(numOperators + 1, Level());
  wasBegin.assign(numOperators, false);
  Level level{0, argumentBytes};
  for (unsigned stage = 0; stage < numOperators;) {
    wasBegin[stage] = true;
    before[stage] = level;
    numberOf[stage] = ofStages.size();
    unsigned end = walk(stage, level);
    auto held = atOperators.begin();
    std::copy(held + stage, held + end, ofOperators.begin() + stage);
    ofStages.push_back(*std::max_element(held + stage, held + end));
    stage = end;
  }
  numberOf[numOperators] = ofStages.size();
  for (unsigned op : touched)
    isTouched[op] = false;
  touched.clear();
}

/// Forgets operators at which all is again as it was.
void HeldLine::listChanged() {
  changed.clear();
  std::erase_if(touched, [&](unsigned op) {
    bool isMoved = (plan.stageOf[op] == op) != wasBegin[op];
    isTouched[op] = isMoved || operators[op] != keptOperators[op];
    if (isTouched[op])
      changed.push_back(plan.stageOf[op]);
    if (isMoved)
      changed.push_back(plan.stageOf[op - 1]);
    return !isTouched[op];
  });
  std::sort(changed.begin(), changed.end());
  changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
}

/// Adds the stage that was walked last.
void HeldLine::addStage(Measure &sum, int64_t limit, bool byOperator,
                        unsigned begin, unsigned end) const {
  int64_t most = 0;
  for (unsigned op = begin; op < end; ++op) {
    most = std::max(most, atOperators[op]);
    sum.excess +=
        byOperator ? std::max<int64_t>(0, atOperators[op] - limit) : 0;
  }
  sum.peak = std::max(sum.peak, most);
  sum.excess += byOperator ? 0 : std::max<int64_t>(0, most - limit);
}

/// Adds stages that are as they were, but for bytes that lie beside them.
void HeldLine::addKept(Measure &sum, int64_t limit, bool byOperator,
                       unsigned begin, unsigned end, int64_t more) const {
  const int64_t *held = byOperator ? ofOperators.data() : ofStages.data();
  const int64_t *last = held + (byOperator ? end : numberOf[end]);
  int64_t most = 0, excess = 0;
  for (held += byOperator ? begin : numberOf[begin]; held != last; ++held) {
    most = std::max(most, *held + more);
    excess += std::max<int64_t>(0, *held + more - limit);
  }
  sum.peak = std::max(sum.peak, most);
  sum.excess += excess;
}

HeldLine::Measure HeldLine::measure(int64_t limit, bool byOperator) {
  listChanged();
  Measure sum;
  Level level{0, argumentBytes};
  unsigned place = 0;
  auto goTo = [&](unsigned stage) {
    if (stage == place)
      return;
    int64_t alive = level.alive - before[place].alive,
            once = level.once - before[place].once;
    addKept(sum, limit, byOperator, place, stage, numStrands * alive + once);
    level = {before[stage].alive + alive, before[stage].once + once};
    place = stage;
  };
  for (unsigned stage : changed) {
    goTo(stage);
    place = walk(stage, level);
    addStage(sum, limit, byOperator, stage, place);
  }
  goTo(operators.size());
  return sum;
}
