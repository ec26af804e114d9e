//===- EditorScore.cpp - cost and memory of an edited plan ----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Improve/Editor.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

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

double PlanEditor::getSecondsWithQueue(Waiting &queue) {
  LineState state;
  unsigned numOperators = problem.operators.size(), last = 0;
  for (unsigned stage = 0; stage < numOperators;
       stage = edited.nextStage[stage]) {
    queue.stage = static_cast<int>(stage);
    last = stage;
    ++work;
    const EditedStage &info = stages[stage];
    line.close<Waiting &>(state, info.work, info.leaving, stage == firstUpdate,
                          queue);
    if (info.numWaiting == 0)
      continue;
    for (unsigned op = stage; op < edited.nextStage[stage]; ++op)
      for (unsigned tensor : problem.operators[op].results)
        for (unsigned i = 0; i < tensors[tensor].copies.size(); ++i)
          if (const EditedCopy &copy = tensors[tensor].copies[i]; copy.waits) {
            queue.waiters.push_back({copy.change->getTotal(facts.numStrands)});
            queue.copies.emplace_back(tensor, i);
          }
  }
  queue.stage = static_cast<int>(last);
  line.finish<Waiting &>(state, queue);
  return state.seconds;
}

/// Holds what waits and its gradients, or no longer.
void PlanEditor::holdWaiting(const Waiting &queue, int sign) {
  for (size_t i = 0; i < queue.waiters.size(); ++i) {
    const WaitQueue::Waiter &waiter = queue.waiters[i];
    auto [tensor, place] = queue.copies[i];
    const EditedTensor &made = tensors[tensor];
    const EditedCopy &copy = made.copies[place];
    unsigned first = waiter.first < 0 ? copy.op : waiter.first;
    if (!copy.isInPlace)
      hold(sign * copy.bytes, std::min(first, copy.op), copy.lastOp, false);
    // The last of a gradient's copies frees it.
    if (i + 1 < queue.waiters.size() && queue.copies[i + 1].first == tensor)
      continue;
    unsigned last = made.lastOp;
    for (size_t j = i + 1; j-- > 0 && queue.copies[j].first == tensor;)
      last = std::max<int>(last, queue.waiters[j].last);
    holdTensor(tensor, last, sign);
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
  Waiting queue;
  Score score;
  score.seconds = getSecondsWithQueue(queue);
  holdWaiting(queue, 1);
  score.excess = getExcess();
  holdWaiting(queue, -1);
  return score;
}
