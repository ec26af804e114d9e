//===- EditorScore.cpp - what an edited plan costs and holds --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Improve/Editor.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

/// What waits, for the account of memory: first in, first out (Cost.h,
/// *Waiting*).
struct PlanEditor::WaitQueue {
  struct Waiter {
    unsigned tensor, copy;
    double seconds;
    /// Stages in whose slots its first and last piece are taken.
    int first = -1, last = -1;
  };
  std::vector<Waiter> waiters;
  /// Those before `begin` are gone, those from `end` on arrive later.
  size_t begin = 0, end = 0;
  int stage = 0;

  void mark(Waiter &waiter) const {
    if (waiter.first < 0)
      waiter.first = stage;
    waiter.last = stage;
  }
  void take(double taken, bool takesAll) {
    while (begin < end && (takesAll || taken > 0)) {
      Waiter &waiter = waiters[begin];
      mark(waiter);
      if (!takesAll && taken < waiter.seconds) {
        waiter.seconds -= taken;
        return;
      }
      taken -= waiter.seconds;
      ++begin;
    }
  }
  void arrive() { end = waiters.size(); }
  void expose() {
    for (; begin < end; ++begin)
      mark(waiters[begin]);
  }
};

static bool isEqual(const LineState &a, const LineState &b) {
  return a.previous == b.previous && a.waiting == b.waiting &&
         a.arriving == b.arriving && a.previousIsOne == b.previousIsOne;
}

/// The time lines before stages, from the first one that changed on.
void PlanEditor::writeLines(unsigned first) {
  unsigned stage = first;
  if (hasLimit || stage >= lines.size())
    return;
  LineState state = stage > 0 ? lines[stage] : LineState();
  for (; stage < lines.size(); stage = edited.nextStage[stage]) {
    lines[stage] = state;
    line.close(state, stages[stage].work, stages[stage].leaving,
               stage == firstUpdate);
  }
  line.finish(state);
  keptSeconds = state.seconds;
}

/// From the first stage that changed on, until all is again as it was.
double PlanEditor::getSeconds() {
  unsigned numOperators = problem.operators.size(), stage = firstChanged;
  if (stage == numOperators)
    return keptSeconds;
  LineState state = lines[stage];
  for (; stage < numOperators; stage = edited.nextStage[stage]) {
    if (stage > lastChanged && isEqual(state, lines[stage]))
      return keptSeconds + (state.seconds - lines[stage].seconds);
    ++work;
    line.close(state, stages[stage].work, stages[stage].leaving,
               stage == firstUpdate);
  }
  line.finish(state);
  return state.seconds;
}

double PlanEditor::getSecondsWithQueue(WaitQueue &queue) {
  LineState state;
  unsigned numOperators = problem.operators.size(), last = 0;
  for (unsigned stage = 0; stage < numOperators;
       stage = edited.nextStage[stage]) {
    queue.stage = static_cast<int>(stage);
    last = stage;
    ++work;
    const EditedStage &info = stages[stage];
    line.close<WaitQueue &>(state, info.work, info.leaving,
                            stage == firstUpdate, queue);
    if (info.numWaiting == 0)
      continue;
    for (unsigned op = stage; op < edited.nextStage[stage]; ++op)
      for (unsigned tensor : problem.operators[op].results)
        for (unsigned i = 0; i < tensors[tensor].copies.size(); ++i)
          if (const EditedCopy &copy = tensors[tensor].copies[i]; copy.waits)
            queue.waiters.push_back(
                {tensor, i, copy.change->getTotal(facts.numStrands)});
  }
  queue.stage = static_cast<int>(last);
  line.finish<WaitQueue &>(state, queue);
  return state.seconds;
}

/// Holds what waits and its gradients, or no longer.
void PlanEditor::holdWaiting(const WaitQueue &queue, int sign) {
  for (size_t i = 0; i < queue.waiters.size(); ++i) {
    const WaitQueue::Waiter &waiter = queue.waiters[i];
    const EditedTensor &made = tensors[waiter.tensor];
    const EditedCopy &copy = made.copies[waiter.copy];
    unsigned first = waiter.first < 0 ? copy.op : waiter.first;
    if (!copy.isInPlace)
      hold(sign * copy.bytes, std::min(first, copy.op), copy.lastOp, false);
    // The last of a gradient's copies frees it.
    if (i + 1 < queue.waiters.size() &&
        queue.waiters[i + 1].tensor == waiter.tensor)
      continue;
    unsigned last = made.lastOp;
    for (size_t j = i + 1; j-- > 0 && queue.waiters[j].tensor == waiter.tensor;)
      last = std::max<int>(last, queue.waiters[j].last);
    holdTensor(waiter.tensor, last, sign);
  }
}

int64_t PlanEditor::getExcess() const {
  int64_t excess = 0, alive = residentBytes, limit = problem.memoryLimit;
  unsigned numOperators = problem.operators.size();
  for (unsigned stage = 0; stage < numOperators;
       stage = edited.nextStage[stage]) {
    int64_t workspace = 0, late = 0, gone = 0;
    for (unsigned op = stage; op < edited.nextStage[stage]; ++op) {
      alive += births[op];
      late += lateBirths[op];
      gone += deaths[op];
      workspace = std::max(workspace, workspaces[op]);
    }
    excess += std::max<int64_t>(0, alive + workspace - limit);
    alive += late - gone;
  }
  return excess;
}

Score PlanEditor::getScore() {
  if (!hasLimit)
    return {getSeconds(), 0};
  WaitQueue queue;
  Score score;
  score.seconds = getSecondsWithQueue(queue);
  holdWaiting(queue, 1);
  score.excess = getExcess();
  holdWaiting(queue, -1);
  return score;
}
