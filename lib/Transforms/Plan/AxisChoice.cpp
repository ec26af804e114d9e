//===- AxisChoice.cpp - a signature per operator along one axis -----------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AxisPlanner.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

/// Improvements below this share of the cost are rounding.
static constexpr double kEpsilon = 1e-13;
/// Costs that differ by less bytes are equal.
static constexpr double kEqualCost = 1e-6;

void AxisPlanner::addDemand(unsigned value, const Demand &demand, int change) {
  auto &list = demands[value];
  auto *it = llvm::find_if(
      list, [&](const Demand &other) { return other.isSame(demand); });
  if (it == list.end())
    it = list.insert(list.end(), demand);
  it->count += change;
  if (it->count == 0)
    list.erase(it);
}

bool AxisPlanner::hasDemand(unsigned value, const Demand &demand) const {
  return llvm::any_of(demands[value], [&](const Demand &other) {
    return other.isSame(demand);
  });
}

bool AxisPlanner::isMetInForward(unsigned value, Demand demand) const {
  return std::exchange(demand.wanter, Wanter::Forward) == Wanter::Behind &&
         hasDemand(value, demand);
}

void AxisPlanner::changeDemands(unsigned index, int change) {
  const OpNode &op = graph.ops[index];
  for (unsigned i = 0; i < op.operands.size(); ++i)
    addDemand(op.operands[i],
              getDemand(index, i, op.signatures[axis].operands[i]), change);
}

void AxisPlanner::setSignature(unsigned index, unsigned candidate,
                               bool isFirst) {
  OpNode &op = graph.ops[index];
  if (!isFirst)
    changeDemands(index, -1);
  op.signatures[axis] = candidates[index][candidate];
  changeDemands(index, 1);
  for (auto [value, form] : llvm::zip(op.results, op.signatures[axis].results))
    forms[value] = form;
}

void AxisPlanner::addDemandsOfResults() {
  for (unsigned i = 0; i < graph.arguments.size(); ++i)
    forms[i] = graph.arguments[i].forms[axis];
  for (auto [index, result] : llvm::enumerate(graph.results))
    addDemand(result.value,
              {graph.getResultForm(index, axis), getResultWanter(index)}, 1);
}

void AxisPlanner::chooseGreedily() {
  for (unsigned index = 0; index < graph.ops.size(); ++index) {
    unsigned best = 0;
    double bestCost = 2 * kImpossible;
    for (unsigned i = 0; i < candidates[index].size(); ++i) {
      double cost = getGreedyCost(index, candidates[index][i]);
      if (cost >= bestCost)
        continue;
      best = i;
      bestCost = cost;
    }
    setSignature(index, best, /*isFirst=*/true);
  }
}

unsigned AxisPlanner::getCurrent(unsigned index) const {
  return llvm::find(candidates[index], graph.ops[index].signatures[axis]) -
         candidates[index].begin();
}

/// Appends the candidates of the views among the operands, and of the views
/// before them, that give the forms which `signature` of `index` asks for.
void AxisPlanner::addViews(unsigned index, const Signature &signature,
                           Choices &choices) const {
  for (auto [value, form] :
       llvm::zip(graph.ops[index].operands, signature.operands)) {
    int producer = graph.values[value].producer;
    if (producer < 0 || !graph.ops[producer].isView || forms[value] == form)
      continue;
    for (auto [i, candidate] : llvm::enumerate(candidates[producer])) {
      if (candidate.results[0] != form)
        continue;
      choices.push_back(
          {static_cast<unsigned>(producer), static_cast<unsigned>(i)});
      addViews(producer, candidate, choices);
      break;
    }
  }
}

/// Makes the choices and tells what they save; undoes them.
double AxisPlanner::tryChoices(const Choices &choices, double &fewerResults) {
  double before = getCost(choices);
  fewerResults = getResultCost(choices.front().first);
  Choices undo;
  for (auto [index, candidate] : choices) {
    undo.push_back({index, getCurrent(index)});
    setSignature(index, candidate);
  }
  double after = getCost(choices);
  fewerResults -= getResultCost(choices.front().first);
  for (auto [index, candidate] : llvm::reverse(undo))
    setSignature(index, candidate);
  return before - after > kEpsilon * before || before - after <= 0
             ? before - after
             : 0;
}

/// Of the values that choices for operator `index` look at.
uint64_t AxisPlanner::getLastChange(unsigned index) const {
  const OpNode &op = graph.ops[index];
  uint64_t last = 0;
  for (unsigned value : op.results)
    last = std::max(last, changedAt[value]);
  for (unsigned value : op.operands) {
    last = std::max(last, changedAt[value]);
    int producer = graph.values[value].producer;
    if (producer >= 0 && graph.ops[producer].isView)
      last = std::max(last, getLastChange(producer));
  }
  return last;
}

void AxisPlanner::choose(const Choices &choices) {
  ++now;
  for (auto [index, candidate] : choices) {
    setSignature(index, candidate);
    const OpNode &op = graph.ops[index];
    for (const auto *values : {&op.operands, &op.results})
      for (unsigned value : *values)
        changedAt[value] = now;
  }
}

/// Takes the best signature of operator `index`, alone or with the views before
/// it. With `raises`, also one of equal cost if a change of form thereby moves
/// from the results to the operands: it may meet an equal one there.
bool AxisPlanner::improve(unsigned index, bool raises) {
  // What is best where more is accepted is best where less is.
  uint64_t &settled = settledAt[raises][index];
  settled = std::max(settled, settledAt[true][index]);
  if (candidates[index].size() == 1 || settled > getLastChange(index))
    return false;
  unsigned current = getCurrent(index);
  Choices best;
  double bestGain = 0;
  for (unsigned i = 0; i < candidates[index].size(); ++i) {
    if (i == current)
      continue;
    Choices alone{{index, i}}, together{{index, i}};
    addViews(index, candidates[index][i], together);
    double fewerResults;
    double gain = tryChoices(alone, fewerResults);
    bool isHigher =
        raises && best.empty() && gain >= -kEqualCost && fewerResults > 1;
    if (gain > bestGain || isHigher) {
      best = alone;
      bestGain = std::max(gain, 0.0);
    }
    gain = together.size() > 1 ? tryChoices(together, fewerResults) : 0;
    if (gain > bestGain) {
      best = together;
      bestGain = gain;
    }
  }
  if (best.empty())
    settled = ++now;
  else
    choose(best);
  return !best.empty();
}

bool AxisPlanner::sweep(bool backwards) {
  bool changed = false;
  unsigned count = graph.ops.size();
  for (unsigned i = 0; i < count; ++i)
    changed |= improve(backwards ? count - 1 - i : i, /*raises=*/backwards);
  return changed;
}
