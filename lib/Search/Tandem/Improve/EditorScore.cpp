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

/// Whether a view lies in the memory of its root.
bool PlanEditor::isFolded(unsigned tensor) const {
  return facts.isFolded(
      tensor, facts.getProduced(edited.signatures, tensor),
      facts.getProduced(edited.signatures, facts.roots[tensor]),
      tensors[tensor].isSummed);
}

/// Until when late tensors are there: gradients until their last copy is made,
/// roots as long as their views.
void PlanEditor::setLastOps(const Waiting &queue) {
  for (unsigned tensor : sharing)
    lastOps[tensor] = tensors[tensor].lastOp;
  for (const auto &[tensor, place] : queue.copies)
    lastOps[tensor] = tensors[tensor].lastOp;
  for (size_t i = 0; i < queue.waiters.size(); ++i) {
    unsigned &last = lastOps[queue.copies[i].first];
    if (int stage = queue.waiters[i].last; stage >= 0)
      last = std::max(last, edited.nextStage[stage] - 1);
  }
  for (unsigned tensor : sharing)
    lastOfSums[tensor] = lastOps[tensor];
  for (const auto &[tensor, place] : queue.copies)
    lastOfSums[tensor] = lastOps[tensor];
  for (unsigned tensor : facts.views)
    if (isFolded(tensor)) {
      unsigned &last = lastOps[facts.roots[tensor]];
      last = std::max(last, lastOfSums[tensor]);
    }
}

/// Holds what waits, its gradients, and what shares its memory, or no longer.
void PlanEditor::holdLate(const Waiting &queue, int sign) {
  for (size_t i = 0; i < queue.waiters.size(); ++i) {
    auto [tensor, place] = queue.copies[i];
    const EditedCopy &copy = tensors[tensor].copies[place];
    unsigned first =
        queue.waiters[i].first < 0 ? copy.op : queue.waiters[i].first;
    holdCopy(copy, std::min(first, copy.op), sign);
    // Once for all of a gradient's copies.
    bool isLast =
        i + 1 == queue.waiters.size() || queue.copies[i + 1].first != tensor;
    if (isLast && !sharesMemory[tensor])
      holdTensor(tensor, lastOps[tensor], lastOfSums[tensor], sign);
  }
  for (unsigned tensor : sharing)
    if (!isFolded(tensor))
      holdTensor(tensor, lastOps[tensor], lastOfSums[tensor], sign);
}

/// What one strand holds at most in the stage, with workspaces and what all
/// hold together; `beside` is what the others hold, `alive` and `once` what is
/// held before it, and then behind it.
int64_t PlanEditor::getHeld(unsigned stage, int64_t &alive, int64_t &once,
                            int64_t &beside) const {
  unsigned end = edited.nextStage[stage];
  // Strands one after the other hold together all that is there at some time.
  bool isWhole = stages[stage].numOverTime > 0;
  for (unsigned op = stage; op < end; ++op) {
    alive += copyShares[op];
    once += copyBirths[op] + (isWhole ? births[op] : 0);
  }
  int64_t atBegin = alive, terms = 0, most = 0, gone = 0;
  for (unsigned op = stage; op < end; ++op) {
    alive += shares[op];
    terms += termShares[op];
    once += isWhole ? 0 : births[op];
    atOperators[op] = alive + terms + once + workspaces[op];
    most = std::max(most, atOperators[op]);
    alive -= goneShares[op];
    gone += isWhole ? deaths[op] : 0;
    once -= isWhole ? 0 : deaths[op];
  }
  for (unsigned op = stage; op < end; ++op)
    once += lateBirths[op];
  once -= gone;
  beside = (facts.numStrands - 1) * std::max(atBegin, alive + terms);
  return most;
}

/// Adds the peak, and what is above the limit, summed over the stages or over
/// their operators.
void PlanEditor::addBytes(Score &score, int64_t limit, bool byOperator) const {
  int64_t once = argumentBytes, alive = 0, beside = 0;
  score.excess = score.peak = 0;
  unsigned numOperators = problem.operators.size();
  for (unsigned stage = 0; stage < numOperators;
       stage = edited.nextStage[stage]) {
    int64_t most = getHeld(stage, alive, once, beside);
    int64_t left = limit - beside;
    score.peak = std::max(score.peak, most + beside);
    if (most > left && !byOperator)
      score.excess += most - left;
    else if (most > left)
      for (unsigned op = stage; op < edited.nextStage[stage]; ++op)
        score.excess += std::max<int64_t>(0, atOperators[op] - left);
  }
}

Score PlanEditor::getScore(int64_t limit, bool byOperator) {
  if (!hasLimit)
    return {getSeconds(), 0};
  Waiting queue;
  Score score;
  score.seconds = getSecondsWithQueue(queue);
  setLastOps(queue);
  holdLate(queue, 1);
  addBytes(score, limit, byOperator);
  holdLate(queue, -1);
  return score;
}

Score PlanEditor::getScore() { return getScore(problem.memoryLimit, false); }

Score PlanEditor::getScoreByOperator(int64_t limit) {
  return getScore(limit, true);
}
