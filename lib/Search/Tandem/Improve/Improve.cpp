//===- Improve.cpp - improvement by small changes -------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Improve/Improve.h"
#include "Tandem/Limits.h"
#include "Tandem/Relaxation/Fold.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

PlanImprover::PlanImprover(const FactorGraph &graph, ChangeTable &table,
                           const std::vector<unsigned> &repeats)
    : graph(graph), problem(graph.facts.problem), editor(graph.facts, table) {
  std::vector<unsigned> own = getUnfolded(graph);
  if (repeats != own)
    addUnits(repeats);
  addUnits(own);
}

void PlanImprover::addUnits(const std::vector<unsigned> &representatives) {
  std::vector<unsigned> unitOf(graph.variables.size());
  unsigned first = units.size();
  for (unsigned i = 0; i < graph.variables.size(); ++i) {
    const Variable &variable = graph.variables[i];
    if (representatives[i] == i) {
      unitOf[i] = units.size();
      units.push_back({{}, variable.size, {}});
    }
  }
  for (unsigned i = 0; i < graph.variables.size(); ++i) {
    unitOf[i] = unitOf[representatives[i]];
    std::vector<unsigned> &ops = units[unitOf[i]].operators;
    ops.insert(ops.end(), graph.variables[i].operators.begin(),
               graph.variables[i].operators.end());
  }
  for (unsigned i = 0; i < graph.variables.size(); ++i) {
    std::vector<unsigned> &next = units[unitOf[i]].neighbours;
    for (auto [factor, slot] : graph.variables[i].slots)
      for (unsigned other : graph.factors[factor].variables)
        if (unitOf[other] != unitOf[i])
          next.push_back(unitOf[other]);
  }
  ownUnits.resize(problem.operators.size());
  for (unsigned i = first; i < units.size(); ++i) {
    for (unsigned op : units[i].operators)
      ownUnits[op] = i;
    std::vector<unsigned> &next = units[i].neighbours;
    std::sort(next.begin(), next.end());
    next.erase(std::unique(next.begin(), next.end()), next.end());
  }
}

bool PlanImprover::mayGoOn() const {
  if (editor.getWork() >= limit)
    return false;
  return ++numAsked % kChangesPerLook != 0 || (*proceeds)();
}

/// Keeps what was changed since `mark` if it is legal and better.
bool PlanImprover::take(const PlanEditor::Mark &mark, bool isLegal) {
  Score score;
  if (isLegal)
    score = editor.getScore();
  if (!isLegal || !score.isBetterThan(best)) {
    editor.undo(mark);
    return false;
  }
  editor.keep();
  best = score;
  return true;
}

bool PlanImprover::sweepForms() {
  bool isBetter = false;
  for (const Unit &unit : units) {
    if (!mayGoOn())
      return isBetter;
    PlanEditor::Mark mark = editor.mark();
    if (editor.settleSignatures(unit.operators))
      isBetter |= take(mark, true);
  }
  return isBetter;
}

/// Another place for the cut before `op`, or none.
bool PlanImprover::moveCut(unsigned op) {
  PlanEditor::Mark mark = editor.mark();
  bool isLegal = editor.setCut(op, false);
  if (take(mark, isLegal && !editor.hasCut(op)))
    return true;
  unsigned numOperators = problem.operators.size();
  for (unsigned distance = 1; distance <= kCutDistance; ++distance)
    for (bool isLater : {false, true}) {
      unsigned to = isLater ? op + distance : op - distance;
      if (to >= numOperators || editor.hasCut(to) || !editor.mayChangeCut(to))
        continue;
      if (take(mark, editor.setCut(to, true) && editor.setCut(op, false)))
        return true;
    }
  return false;
}

bool PlanImprover::sweepCuts() {
  bool isBetter = false;
  for (unsigned op = 1; op < problem.operators.size(); ++op) {
    if (!mayGoOn())
      return isBetter;
    if (!editor.mayChangeCut(op))
      continue;
    if (editor.hasCut(op)) {
      isBetter |= moveCut(op);
      continue;
    }
    PlanEditor::Mark mark = editor.mark();
    isBetter |= take(mark, editor.setCut(op, true));
  }
  return isBetter;
}

bool PlanImprover::sweepCopies() {
  bool isBetter = false;
  for (const Copy &copy : editor.listKeepable()) {
    PlanEditor::Mark mark = editor.mark();
    isBetter |= take(mark, editor.toggleKept(copy));
  }
  for (const Copy &copy : editor.listWaitable()) {
    PlanEditor::Mark mark = editor.mark();
    isBetter |= take(mark, editor.toggleWaiting(copy));
  }
  return isBetter;
}

/// From which seconds on a first change is not followed.
double PlanImprover::getFar() const {
  // What holds too much is lowered at any price.
  if (best.excess > 0)
    return std::numeric_limits<double>::infinity();
  double numOperators = static_cast<double>(problem.operators.size());
  return best.seconds * (1 + kFarOperators / numOperators);
}

bool PlanImprover::tryWithNeighbours(const Unit &unit, unsigned value) {
  PlanEditor::Mark mark = editor.mark();
  if (!editor.setSignatures(unit.operators, value) ||
      editor.getScore().seconds > getFar()) {
    editor.undo(mark);
    return false;
  }
  for (unsigned next : unit.neighbours)
    editor.settleSignatures(units[next].operators);
  return take(mark, true);
}

bool PlanImprover::sweepNeighbours() {
  bool isBetter = false;
  for (size_t i = 0; i < units.size(); ++i) {
    const Unit &unit = units[nextUnit];
    for (unsigned value = 0; value < unit.numValues; ++value) {
      if (!mayGoOn())
        return isBetter;
      if (value != getValue(unit))
        isBetter |= tryWithNeighbours(unit, value);
    }
    nextUnit = (nextUnit + 1) % units.size();
  }
  return isBetter | sweepCutsWithNeighbours();
}

/// Begins a stage with the operator, or joins it with the one before; the
/// operators there settle.
bool PlanImprover::tryCutWithNeighbours(unsigned op) {
  PlanEditor::Mark mark = editor.mark();
  if (!editor.setCut(op, !editor.hasCut(op)) ||
      editor.getScore().seconds > getFar()) {
    editor.undo(mark);
    return false;
  }
  unsigned first = op - std::min(op, kCutReach);
  unsigned last = std::min<unsigned>(op + kCutReach, problem.operators.size());
  for (unsigned next = first; next < last; ++next)
    editor.settleSignatures(units[ownUnits[next]].operators);
  return take(mark, true);
}

bool PlanImprover::sweepCutsWithNeighbours() {
  bool isBetter = false;
  for (unsigned op = 1; op < problem.operators.size(); ++op) {
    if (!mayGoOn())
      return isBetter;
    if (editor.mayChangeCut(op))
      isBetter |= tryCutWithNeighbours(op);
  }
  return isBetter;
}

Plan PlanImprover::improve(const Plan &plan, Reach reach, uint64_t &work,
                           const std::function<bool()> &mayProceed) {
  proceeds = &mayProceed;
  editor.set(plan);
  best = editor.getScore();
  uint64_t before = editor.getWork();
  limit = before + work;
  do {
    bool isBetter = true;
    while (isBetter && mayGoOn()) {
      isBetter = sweepForms();
      isBetter |= sweepCopies();
      isBetter |= sweepCuts();
    }
  } while (reach == Reach::Neighbours && mayGoOn() && sweepNeighbours());
  work -= std::min(work, editor.getWork() - before);
  return editor.getPlan();
}
