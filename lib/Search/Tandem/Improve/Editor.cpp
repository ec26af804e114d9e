//===- Editor.cpp - editor of a plan --------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Improve/Editor.h"
#include <algorithm>
#include <iterator>
#include <utility>

using namespace tandem::cost;
using namespace tandem::search;

PlanEditor::PlanEditor(const Facts &facts, ChangeTable &table)
    : facts(facts), problem(facts.problem), line(facts.problem),
      hasLimit(facts.problem.memoryLimit != kNoLimit),
      firstUpdate(facts.problem.operators.size()), copies(facts, table, edited),
      tensors(facts.tensors.size()), held(edited, facts.numStrands),
      sharesMemory(facts.tensors.size()), viewsOf(facts.tensors.size()),
      late(facts.tensors.size()), spans(facts.tensors.size()),
      isQueued(facts.tensors.size()) {
  unsigned numOperators = problem.operators.size();
  for (unsigned op = numOperators; op-- > 0;)
    if (problem.operators[op].pass == Pass::Update)
      firstUpdate = op;
  for (unsigned tensor : facts.views) {
    sharesMemory[tensor] = sharesMemory[facts.roots[tensor]] = true;
    viewsOf[facts.roots[tensor]].push_back(tensor);
  }
  stages.resize(numOperators);
  before.resize(numOperators);
  firstChanged = numOperators;
  lastChanged = 0;
}

void PlanEditor::set(const Plan &plan) {
  edited.signatures = plan.signatures;
  edited.stageOf.resize(edited.signatures.size());
  edited.nextStage.assign(edited.signatures.size(), 0);
  unsigned begin = 0;
  for (unsigned end : plan.stageEnds) {
    std::fill(edited.stageOf.begin() + begin, edited.stageOf.begin() + end,
              begin);
    edited.nextStage[begin] = end;
    begin = end;
  }
  // First as usual, then with the decisions that are not; each pass's may
  // change what is usual in the next.
  edited.flips.clear();
  rebuild();
  for (unsigned pass = 0; pass < kNumPasses; ++pass) {
    Plan usual = getPlan();
    addFlips(usual.kept, plan.kept, false);
    addFlips(usual.waiting, plan.waiting, true);
    rebuild();
  }
  ticksPerSecond = 1;
  numKept = kExactAfter - 1;
  keep();
  setTicks();
}

/// What is decided otherwise than as usual.
void PlanEditor::addFlips(const std::vector<Copy> &usual,
                          const std::vector<Copy> &wanted, bool isWait) {
  std::vector<Copy> different;
  std::set_symmetric_difference(usual.begin(), usual.end(), wanted.begin(),
                                wanted.end(), std::back_inserter(different));
  for (const Copy &copy : different)
    flip(copy, isWait);
}

Plan PlanEditor::getPlan() const {
  Plan plan;
  plan.signatures = edited.signatures;
  for (unsigned stage = 0; stage < edited.nextStage.size();
       stage = edited.nextStage[stage])
    plan.stageEnds.push_back(edited.nextStage[stage]);
  for (const EditedTensor &tensor : tensors) {
    plan.kept.insert(plan.kept.end(), tensor.kept.begin(), tensor.kept.end());
    for (const EditedCopy &copy : tensor.copies)
      if (copy.waits)
        plan.waiting.push_back(copy.copy);
  }
  std::sort(plan.kept.begin(), plan.kept.end());
  std::sort(plan.waiting.begin(), plan.waiting.end());
  return plan;
}

//===----------------------------------------------------------------------===//
// What stages do and hold
//===----------------------------------------------------------------------===//

void PlanEditor::touch(unsigned stage) {
  firstChanged = std::min(firstChanged, stage);
  lastChanged = std::max(lastChanged, stage);
}

void PlanEditor::logStage(unsigned stage) {
  oldStages.emplace_back(stage, stages[stage]);
  touch(stage);
}

void PlanEditor::setFlags(EditedStage &stage) const {
  stage.work.joins = stage.numJoins > 0;
  stage.work.dependsOnStrand = stage.numOverTime > 0;
}

void PlanEditor::addOperator(unsigned op, int sign) {
  const Operator &info = problem.operators[op];
  if (info.isArgument())
    return;
  const Signature &signature = problem.getSignatures(op)[edited.signatures[op]];
  EditedStage &stage = stages[edited.stageOf[op]];
  bool isOverTime = facts.isPerStrand(signature);
  stage.numOverTime += isOverTime ? sign : 0;
  stage.work.add(signature, isOverTime, sign);
  setFlags(stage);
}

/// Adds (1) what the tensor costs and holds, or takes it away (-1).
void PlanEditor::addTensor(unsigned tensor, int sign) {
  EditedTensor &made = tensors[tensor];
  if (hasLimit)
    addBytes(tensor, sign);
  if (made.sumSeconds > 0 || made.hasWaiting) {
    logStage(made.stage);
    stages[made.stage].work.sums += sign * made.sumSeconds;
    stages[made.stage].leaving += sign * made.leaving;
    stages[made.stage].numWaiting += made.hasWaiting ? sign : 0;
  }
  for (const EditedCopy &copy : made.copies) {
    if (copy.waits)
      continue;
    logStage(copy.stage);
    EditedStage &stage = stages[copy.stage];
    stage.numJoins += copy.change->joins ? sign : 0;
    stage.work.add(*copy.change, sign);
    setFlags(stage);
  }
}

/// Takes away what the tensor adds; `settle` places it anew.
void PlanEditor::queueTensor(unsigned tensor) {
  if (isQueued[tensor])
    return;
  isQueued[tensor] = true;
  queued.push_back(tensor);
  if (tensors[tensor].isPlaced)
    addTensor(tensor, -1);
  oldTensors.emplace_back(tensor, std::exchange(tensors[tensor], {}));
}

void PlanEditor::queueTensors(unsigned op) {
  for (unsigned tensor : problem.operators[op].operands)
    queueTensor(tensor);
  for (unsigned tensor : problem.operators[op].results)
    queueTensor(tensor);
}

/// Places all tensors that wait for it. False if one cannot be.
bool PlanEditor::settle() {
  while (!queued.empty()) {
    unsigned tensor = queued.back(), cut = 0;
    queued.pop_back();
    isQueued[tensor] = false;
    work += facts.tensors[tensor].uses.size() + 1;
    CopyPlacer::Placed placed = copies.place(tensor, tensors[tensor], cut);
    if (placed == CopyPlacer::Placed::Yes) {
      tensors[tensor].isPlaced = true;
      addTensor(tensor, 1);
      continue;
    }
    tensors[tensor] = EditedTensor();
    if (placed == CopyPlacer::Placed::Impossible) {
      for (unsigned other : queued)
        isQueued[other] = false;
      queued.clear();
      return false;
    }
    queueTensor(tensor);
    addCut(cut);
  }
  return true;
}

/// Computes everything from the decisions, so that no rounding adds up.
void PlanEditor::rebuild() {
  unsigned numOperators = problem.operators.size();
  std::fill(stages.begin(), stages.end(), EditedStage());
  held.reset(numOperators);
  std::fill(late.begin(), late.end(), LateBytes());
  openLate.clear();
  for (unsigned op = 0; op < numOperators; ++op) {
    addOperator(op, 1);
    setOperator(op);
  }
  std::fill(tensors.begin(), tensors.end(), EditedTensor());
  for (unsigned tensor = 0; tensor < tensors.size(); ++tensor)
    queueTensor(tensor);
  std::reverse(queued.begin(), queued.end());
  settle();
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

std::vector<Copy> PlanEditor::listKeepable() const {
  std::vector<Copy> copies;
  for (unsigned tensor = 0; tensor < tensors.size(); ++tensor) {
    const std::vector<TensorUse> &uses = facts.tensors[tensor].uses;
    for (const EditedCopy &copy : tensors[tensor].copies)
      if (problem.operators[uses.back().op].pass != copy.copy.pass)
        copies.push_back(copy.copy);
  }
  return copies;
}

std::vector<Copy> PlanEditor::listWaitable() const {
  std::vector<Copy> copies;
  for (const EditedTensor &tensor : tensors)
    for (const EditedCopy &copy : tensor.copies)
      if (copy.copy.pass == Pass::Update)
        copies.push_back(copy.copy);
  return copies;
}

int64_t PlanEditor::countCollectives() const {
  auto isAny = [](const std::array<double, kMaxAxes> &seconds) {
    return std::any_of(seconds.begin(), seconds.end(),
                       [](double s) { return s > 0; });
  };
  int64_t count = 0;
  for (const EditedTensor &tensor : tensors)
    for (const EditedCopy &copy : tensor.copies)
      count += isAny(copy.change->collectiveOnce) +
               facts.numStrands * isAny(copy.change->collectivePerStrand);
  return count;
}
