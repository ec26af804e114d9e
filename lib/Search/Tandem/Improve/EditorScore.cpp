//===- EditorScore.cpp - cost of an edited plan ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Improve/Editor.h"
#include <algorithm>
#include <cmath>

using namespace tandem::cost;
using namespace tandem::search;

static bool isEqual(const LineState &a, const LineState &b) {
  return a.previous == b.previous && a.waiting == b.waiting &&
         a.arriving == b.arriving && a.previousIsOne == b.previousIsOne;
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// Adds the stage; gives the next one.
unsigned PlanEditor::close(LineState &state, Waiting &queue, unsigned stage) {
  const EditedStage &info = stages[stage];
  unsigned end = edited.nextStage[stage];
  queue.stage = static_cast<int>(stage);
  line.close<Waiting &>(state, info.work, info.leaving, stage == firstUpdate,
                        queue);
  if (info.numWaiting == 0 || !hasLimit)
    return end;
  for (unsigned op = stage; op < end; ++op)
    for (unsigned tensor : problem.operators[op].results)
      for (unsigned i = 0; i < tensors[tensor].copies.size(); ++i)
        if (const EditedCopy &copy = tensors[tensor].copies[i]; copy.waits) {
          double seconds = copy.change->getTotal(facts.numStrands);
          queue.waiters.push_back({seconds});
          queue.copies.push_back({tensor, i, seconds});
        }
  return end;
}

void PlanEditor::finish(LineState &state, Waiting &queue) {
  queue.stage = static_cast<int>(edited.stageOf.back());
  line.finish<Waiting &>(state, queue);
}

/// What waited before the stage in the plan that was kept last. Only the first
/// one may have begun.
PlanEditor::Waiting PlanEditor::resume(unsigned stage) const {
  const Before &old = before[stage];
  Waiting queue;
  queue.ticksPerSecond = ticksPerSecond;
  queue.ticks = old.ticks;
  queue.end = old.end - old.begin;
  for (size_t i = old.begin; i < old.size; ++i) {
    int first = kept.waiters[i].first;
    bool hasBegun = first >= 0 && first < static_cast<int>(stage);
    queue.copies.push_back(kept.copies[i]);
    queue.waiters.push_back({kept.copies[i].seconds, hasBegun ? first : -1});
  }
  if (old.begin < old.end)
    queue.waiters.front().seconds = old.left;
  return queue;
}

/// Whether all that comes is as in the plan that was kept last.
bool PlanEditor::isAsKept(const LineState &state, const Waiting &queue,
                          unsigned stage) const {
  const Before &old = before[stage];
  return isEqual(state, old.line) &&
         queue.end - queue.begin == old.end - old.begin &&
         (old.begin == old.end ||
          queue.waiters[queue.begin].seconds == old.left) &&
         std::equal(queue.copies.begin() + queue.begin, queue.copies.end(),
                    kept.copies.begin() + old.begin,
                    kept.copies.begin() + old.size);
}

//===----------------------------------------------------------------------===//
// The time line
//===----------------------------------------------------------------------===//

/// Notes when the queue's copies are taken; of those that were left at `stage`
/// the kept plan says it. Whether something is new.
bool PlanEditor::takeSpans(const Waiting &queue, unsigned stage) {
  bool isNew = false;
  for (size_t i = 0; i < queue.waiters.size(); ++i) {
    auto [seconds, first, last] = queue.waiters[i];
    if (stage < problem.operators.size() && i >= queue.begin) {
      const auto &old = kept.waiters[before[stage].begin + i - queue.begin];
      first = first < 0 ? old.first : first;
      last = old.last;
    }
    const WaitingCopy &copy = queue.copies[i];
    Span span{first, last < 0 ? 0 : edited.nextStage[last] - 1};
    std::vector<Span> &known = spans[copy.tensor];
    known.resize(std::max<size_t>(known.size(), copy.place + 1));
    if (known[copy.place] == span)
      continue;
    isNew = true;
    oldSpans.push_back({copy.tensor, copy.place, known[copy.place]});
    known[copy.place] = span;
    dropLate(copy.tensor);
  }
  return isNew;
}

/// The time lines before stages, from the first one that changed on, and the
/// seconds of all.
double PlanEditor::writeLines(unsigned first) {
  unsigned numOperators = problem.operators.size();
  if (first >= numOperators)
    return 0;
  LineState state = before[first].line;
  Waiting queue = resume(first);
  size_t gone = before[first].begin;
  for (unsigned stage = first; stage < numOperators;) {
    double left =
        queue.begin < queue.end ? queue.waiters[queue.begin].seconds : 0;
    before[stage] = {state,
                     queue.ticks,
                     gone + queue.begin,
                     gone + queue.end,
                     gone + queue.waiters.size(),
                     left};
    stage = close(state, queue, stage);
  }
  finish(state, queue);
  keptTicks = queue.ticks;
  takeSpans(queue, numOperators);
  kept.waiters.resize(gone);
  kept.copies.resize(gone);
  kept.waiters.insert(kept.waiters.end(), queue.waiters.begin(),
                      queue.waiters.end());
  kept.copies.insert(kept.copies.end(), queue.copies.begin(),
                     queue.copies.end());
  return state.seconds;
}

/// From the first stage that changed on, until all is again as it was.
int64_t PlanEditor::getTicks() {
  unsigned numOperators = problem.operators.size(), stage = firstChanged,
           last = stage;
  if (stage == numOperators)
    return keptTicks;
  LineState state = before[stage].line;
  Waiting queue = resume(stage);
  while (stage < numOperators &&
         !(stage > lastChanged && isAsKept(state, queue, stage))) {
    ++work;
    last = stage;
    stage = close(state, queue, stage);
  }
  if (stage == numOperators)
    finish(state, queue);
  // Where spans differ from those of the kept plan, later walks look again.
  if (takeSpans(queue, stage))
    lastChanged = std::max(lastChanged, last);
  return queue.ticks +
         (stage < numOperators ? keptTicks - before[stage].ticks : 0);
}

/// Of which a plan like the one that is kept takes some 10^15: rounding is far
/// below `kEqualCost`, and plans may cost thousands of times as much.
void PlanEditor::setTicks() {
  constexpr int kDigits = 50;
  double seconds = writeLines(0);
  int digits = seconds > 0 ? std::ilogb(seconds) : 0;
  ticksPerSecond = std::ldexp(1.0, kDigits - digits);
  writeLines(0);
}

Score PlanEditor::getScore(int64_t limit, bool byOperator) {
  uint64_t before = work;
  Score score{static_cast<double>(getTicks()) / ticksPerSecond, 0};
  if (!hasLimit)
    return score;
  work = before + held.getNumStages();
  holdLate();
  auto [peak, excess] = held.measure(limit, byOperator);
  score.peak = peak;
  score.excess = excess;
  return score;
}

Score PlanEditor::getScore() { return getScore(problem.memoryLimit, false); }

Score PlanEditor::getScoreByOperator(int64_t limit) {
  return getScore(limit, true);
}
