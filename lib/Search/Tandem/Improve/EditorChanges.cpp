//===- EditorChanges.cpp - reversible changes -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Improve/Editor.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

void PlanEditor::setSignature(unsigned op, unsigned signature) {
  logStage(edited.stageOf[op]);
  addOperator(op, -1);
  oldSignatures.emplace_back(op, edited.signatures[op]);
  edited.signatures[op] = signature;
  setOperator(op);
  addOperator(op, 1);
}

bool PlanEditor::setSignatures(const std::vector<unsigned> &ops,
                               unsigned signature) {
  for (unsigned op : ops)
    queueTensors(op);
  for (unsigned op : ops)
    setSignature(op, signature);
  return settle();
}

bool PlanEditor::setSignatures(const Signatures &changes) {
  for (auto [op, signature] : changes)
    queueTensors(op);
  for (auto [op, signature] : changes)
    setSignature(op, signature);
  return settle();
}

PlanEditor::Signatures
PlanEditor::listChanges(const std::vector<unsigned> &signatures) const {
  Signatures changes;
  for (unsigned op = 0; op < signatures.size(); ++op)
    if (signatures[op] != edited.signatures[op])
      changes.emplace_back(op, signatures[op]);
  return changes;
}

bool PlanEditor::settleSignatures(const std::vector<unsigned> &ops) {
  Score least = getScore();
  unsigned before = edited.signatures[ops.front()], value = before;
  unsigned numValues = problem.getSignatures(ops.front()).size();
  for (unsigned i = 0; i < numValues; ++i) {
    if (i == before)
      continue;
    Mark begin = mark();
    if (setSignatures(ops, i))
      if (Score score = getScore(); score.isBetterThan(least)) {
        least = score;
        value = i;
      }
    undo(begin);
  }
  return value != before && setSignatures(ops, value);
}

void PlanEditor::setNext(unsigned stage, unsigned next) {
  oldPlaces.push_back({true, stage, edited.nextStage[stage]});
  edited.nextStage[stage] = next;
}

void PlanEditor::setStage(unsigned op, unsigned stage) {
  oldPlaces.push_back({false, op, edited.stageOf[op]});
  edited.stageOf[op] = stage;
}

void PlanEditor::moveOperators(unsigned begin, unsigned end, unsigned stage) {
  logStage(edited.stageOf[begin]);
  logStage(stage);
  for (unsigned op = begin; op < end; ++op) {
    queueTensors(op);
    addOperator(op, -1);
    setStage(op, stage);
    addOperator(op, 1);
  }
}

void PlanEditor::addCut(unsigned op) {
  unsigned stage = edited.stageOf[op], end = edited.nextStage[stage];
  setNext(op, end);
  setNext(stage, op);
  moveOperators(op, end, op);
  held.touch(op);
}

void PlanEditor::removeCut(unsigned op) {
  unsigned stage = edited.stageOf[op - 1], end = edited.nextStage[op];
  setNext(stage, end);
  moveOperators(op, end, stage);
  held.touch(op);
  // What is left there is rounding.
  stages[op] = EditedStage();
}

bool PlanEditor::mayChangeCut(unsigned op) const {
  return op > 0 && op != firstUpdate && !facts.isArgument(op);
}

bool PlanEditor::setCut(unsigned op, bool cuts) {
  if (hasCut(op) == cuts || !mayChangeCut(op))
    return hasCut(op) == cuts;
  if (cuts)
    addCut(op);
  else
    removeCut(op);
  return settle();
}

void PlanEditor::flip(const Copy &copy, bool isWait) {
  auto place = std::find_if(edited.flips.begin(), edited.flips.end(),
                            [&](const EditedPlan::Flip &flip) {
                              return flip.isWait == isWait && flip.copy == copy;
                            });
  bool isNew = place == edited.flips.end();
  oldFlips.emplace_back(isNew, EditedPlan::Flip{copy.tensor, isWait, copy});
  if (isNew)
    edited.flips.push_back({copy.tensor, isWait, copy});
  else
    edited.flips.erase(place);
}

bool PlanEditor::toggleKept(const Copy &copy) {
  flip(copy, false);
  queueTensor(copy.tensor);
  return settle();
}

bool PlanEditor::toggleWaiting(const Copy &copy) {
  flip(copy, true);
  queueTensor(copy.tensor);
  return settle();
}

PlanEditor::Mark PlanEditor::mark() const {
  return {oldStages.size(), oldTensors.size(), oldSignatures.size(),
          oldPlaces.size(), oldFlips.size(),   oldSpans.size(),
          firstChanged,     lastChanged};
}

void PlanEditor::undoTensors(size_t numLeft) {
  for (; oldTensors.size() > numLeft; oldTensors.pop_back()) {
    auto &[tensor, old] = oldTensors.back();
    if (hasLimit && tensors[tensor].isPlaced)
      addBytes(tensor, -1);
    tensors[tensor] = std::move(old);
    if (hasLimit && tensors[tensor].isPlaced)
      addBytes(tensor, 1);
  }
}

void PlanEditor::undoFlips(size_t numLeft) {
  for (; oldFlips.size() > numLeft; oldFlips.pop_back()) {
    const auto &[isNew, old] = oldFlips.back();
    if (!isNew) {
      edited.flips.push_back(old);
      continue;
    }
    auto isSame = [copy = &old.copy,
                   isWait = old.isWait](const EditedPlan::Flip &flip) {
      return flip.isWait == isWait && flip.copy == *copy;
    };
    edited.flips.erase(
        std::find_if(edited.flips.begin(), edited.flips.end(), isSame));
  }
}

void PlanEditor::undo(const Mark &mark) {
  undoTensors(mark.numTensors);
  for (; oldStages.size() > mark.numWorks; oldStages.pop_back())
    stages[oldStages.back().first] = oldStages.back().second;
  for (; oldSignatures.size() > mark.numSignatures; oldSignatures.pop_back()) {
    auto [op, old] = oldSignatures.back();
    edited.signatures[op] = old;
    setOperator(op);
  }
  for (; oldPlaces.size() > mark.numStages; oldPlaces.pop_back()) {
    const OldStage &old = oldPlaces.back();
    (old.isNext ? edited.nextStage : edited.stageOf)[old.index] = old.value;
    held.touch(old.index);
  }
  undoFlips(mark.numFlips);
  for (; oldSpans.size() > mark.numSpans; oldSpans.pop_back()) {
    const OldSpan &old = oldSpans.back();
    spans[old.tensor][old.place] = old.span;
    dropLate(old.tensor);
  }
  firstChanged = mark.firstChanged;
  lastChanged = mark.lastChanged;
}

void PlanEditor::keep() {
  bool isRounded = ++numKept % kExactAfter == 0;
  if (isRounded)
    rebuild();
  writeLines(isRounded ? 0 : firstChanged);
  if (hasLimit) {
    holdLate();
    held.keep();
  }
  oldTensors.clear();
  oldStages.clear();
  oldSignatures.clear();
  oldPlaces.clear();
  oldFlips.clear();
  oldSpans.clear();
  firstChanged = problem.operators.size();
  lastChanged = 0;
}
