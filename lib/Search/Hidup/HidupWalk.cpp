//===- HidupWalk.cpp - HiDup's dynamic programming ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HidupWalk.h"
#include <algorithm>
#include <tuple>

using namespace tandem::cost;
using namespace tandem::search;
using namespace tandem::search::hidup;

void Walk::start() {
  history.assign(1, {});
  open.states.reset(0);
  TensorState none = TensorState::makeCount(0);
  open.states.insert({&none, 1});
  open.labels.assign(1, Label());
  open.begins = {0, 1};
}

void Walk::add(const Label &label, const Transition &transition,
               unsigned state) {
  Label added = label;
  added.open.forward += transition.forward;
  added.open.backward += transition.backward;
  added.open.computation += transition.computation;
  added.residentBytes += transition.residentBytes;
  added.hasChange |= transition.hasChange;
  candidates.push_back(
      {added, state,
       static_cast<uint32_t>(decisions.size() - transition.decisions.size()),
       static_cast<uint32_t>(transition.decisions.size())});
}

/// Ends the open stage in front of `op`. Only where something has been changed
/// in it: else it belongs to the stage before, which costs no more.
void Walk::close(unsigned op) {
  closed.states.reset(model.operators[op].slots.size());
  decisions.assign(1, {op, kCut});
  std::vector<TensorState> old;
  for (unsigned i = 0; i < open.states.size(); ++i) {
    old.assign(1, TensorState::makeCount(0));
    for (TensorState tensor : open.states[i].subspan(1))
      old.push_back(tensor.makeOld());
    std::optional<unsigned> state;
    for (const Label &label : open.getLabels(i)) {
      if (!label.hasChange && label.numStages > 1)
        continue;
      if (!state)
        state = closed.states.insert(old);
      Label ended{label.closed + getHidupTime(model.accounting, label.open),
                  {label.open.computation},
                  label.residentBytes,
                  label.history,
                  label.numStages + 1};
      candidates.push_back({ended, *state, 0, 1});
    }
  }
  select(closed, model.operators[op].rest);
}

void Walk::expand(unsigned op, const Front &from) {
  Expander expander(model, op);
  for (unsigned i = 0; i < from.states.size(); ++i) {
    std::span<const Label> labels = from.getLabels(i);
    // All that it had are dropped: what it leads to would be without any, too.
    if (labels.empty())
      continue;
    for (const Transition &transition : expander.expand(from.states[i])) {
      unsigned state = next.states.insert(transition.state);
      decisions.insert(decisions.end(), transition.decisions.begin(),
                       transition.decisions.end());
      for (const Label &label : labels)
        add(label, transition, state);
    }
  }
}

void Walk::step(unsigned op) {
  bool mayClose = op > 0 && !model.operators[op].isDeferred;
  if (mayClose)
    close(op);
  decisions.clear();
  next.states.reset(model.operators[op + 1].slots.size());
  expand(op, open);
  if (mayClose)
    expand(op, closed);
  select(next, model.operators[op + 1].rest);
  std::swap(open, next);
}

//===----------------------------------------------------------------------===//
// Dominance
//===----------------------------------------------------------------------===//

uint32_t Walk::record(const Candidate &candidate) {
  uint32_t last = candidate.label.history;
  for (uint32_t i = 0; i < candidate.numDecisions; ++i) {
    history.push_back({last, decisions[candidate.firstDecision + i]});
    last = history.size() - 1;
  }
  return last;
}

/// Keeps of the candidates of one state those that may become better than
/// the best plan and that no other dominates. One with
/// a larger value never dominates.
void Walk::selectState(std::span<uint32_t> indices, Time rest, Front &into) {
  std::sort(indices.begin(), indices.end(), [&](uint32_t a, uint32_t b) {
    return std::tuple(values[a], getRank(candidates[a].label), a) <
           std::tuple(values[b], getRank(candidates[b].label), b);
  });
  size_t first = into.labels.size();
  for (uint32_t index : indices) {
    const Label &label = candidates[index].label;
    if (values[index] >= upper - rest)
      break;
    bool isDominated = false;
    for (size_t i = first; i < into.labels.size() && !isDominated; ++i)
      isDominated = dominates(model.accounting, into.labels[i], label);
    if (isDominated)
      continue;
    if (into.labels.size() - first == effort.maxLabelsOfState) {
      // Those that follow have no smaller values.
      dropped = std::min(dropped, values[index] + rest);
      break;
    }
    into.labels.push_back(label);
    into.labels.back().history = record(candidates[index]);
  }
}

/// Makes the labels of `into` of the candidates, and clears those. What is left
/// to do adds at least `rest`.
void Walk::select(Front &into, Time rest) {
  numVisited += candidates.size();
  unsigned numStates = into.states.size();
  starts.assign(numStates + 1, 0);
  values.clear();
  for (const Candidate &candidate : candidates) {
    ++starts[candidate.state + 1];
    values.push_back(getValue(model.accounting, candidate.label));
  }
  for (unsigned i = 0; i < numStates; ++i)
    starts[i + 1] += starts[i];
  sorted.resize(candidates.size());
  std::vector<uint32_t> places(starts.begin(), starts.end() - 1);
  for (uint32_t i = 0; i < candidates.size(); ++i)
    sorted[places[candidates[i].state]++] = i;
  into.labels.clear();
  into.begins.assign(1, 0);
  for (unsigned i = 0; i < numStates; ++i) {
    selectState(std::span(sorted).subspan(starts[i], starts[i + 1] - starts[i]),
                rest, into);
    into.begins.push_back(into.labels.size());
  }
  candidates.clear();
}

//===----------------------------------------------------------------------===//
// The plan
//===----------------------------------------------------------------------===//

Plan Walk::trace(const Label &label) const {
  Plan plan;
  unsigned numOperators = model.operators.size() - 1;
  plan.signatures.assign(numOperators, 0);
  plan.stageEnds.push_back(numOperators);
  for (uint32_t i = label.history; i != 0; i = history[i].before) {
    const Decision &decision = history[i].decision;
    if (decision.signature == kCut)
      plan.stageEnds.push_back(decision.op);
    else
      plan.signatures[decision.op] = decision.signature;
  }
  std::reverse(plan.stageEnds.begin(), plan.stageEnds.end());
  return plan;
}

//===----------------------------------------------------------------------===//
// Limits
//===----------------------------------------------------------------------===//

bool Walk::isInterrupted(unsigned op) {
  if (numVisited > effort.maxVisited)
    return true;
  Time bound = kNever;
  for (const Label &label : open.labels)
    bound = std::min(bound, getValue(model.accounting, label));
  return !end.proceeds(double(op + 1) / (model.operators.size() - 1),
                       std::numeric_limits<double>::infinity(),
                       bound * model.secondsPerUnit);
}

/// Drops all but the labels of the least values.
void Walk::keepBest(unsigned op, size_t number) {
  if (open.labels.size() <= number)
    return;
  std::vector<std::pair<Time, uint32_t>> ranks;
  for (const Label &label : open.labels)
    ranks.emplace_back(getValue(model.accounting, label), ranks.size());
  std::nth_element(ranks.begin(), ranks.begin() + number, ranks.end());
  std::pair<Time, uint32_t> first = ranks[number];
  dropped = std::min(dropped, first.first + model.operators[op + 1].rest);
  size_t kept = 0;
  for (unsigned state = 0, i = 0; state < open.states.size(); ++state) {
    unsigned end = open.begins[state + 1];
    for (; i < end; ++i)
      if (std::pair(getValue(model.accounting, open.labels[i]), i) < first)
        open.labels[kept++] = open.labels[i];
    open.begins[state + 1] = kept;
  }
  open.labels.resize(kept);
}

/// Forgets the decisions that no label rests on.
void Walk::collectHistory() {
  std::vector<uint32_t> places(history.size(), 0);
  for (const Label &label : open.labels)
    places[label.history] = 1;
  for (size_t i = history.size(); i-- > 1;)
    if (places[i])
      places[history[i].before] = 1;
  places[0] = 0;
  size_t numKept = 1;
  for (size_t i = 1; i < history.size(); ++i) {
    if (!places[i])
      continue;
    history[numKept] = {places[history[i].before], history[i].decision};
    places[i] = numKept++;
  }
  history.resize(numKept);
  for (Label &label : open.labels)
    label.history = places[label.history];
  historyLimit = std::max<size_t>(2 * numKept, 1 << 20);
}

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

/// One walk over all operators; false if it ends in a dead end.
bool Walk::walk() {
  start();
  for (unsigned op = 0; op + 1 < model.operators.size(); ++op) {
    step(op);
    lastOperator = op;
    if (open.labels.empty())
      return false;
    isHurried = isHurried || isInterrupted(op);
    if (isHurried && upper != kNever)
      return false;
    if (isHurried)
      keepBest(op, numHurried);
    else if (open.labels.size() > effort.maxLabels)
      keepBest(op, effort.keptLabels);
    if (history.size() > historyLimit)
      collectHistory();
  }
  return true;
}

std::optional<Plan> Walk::run() {
  while (!walk()) {
    // With few labels all of them may be dead ends: more are tried, up to what
    // memory holds.
    if (!isHurried || upper != kNever || numHurried >= effort.keptLabels)
      return std::nullopt;
    numHurried *= 16;
  }
  // Nothing is alive: one state, whose first label has the least value.
  return trace(open.labels.front());
}
