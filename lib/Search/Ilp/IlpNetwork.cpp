//===- IlpNetwork.cpp - copies of a tensor as one unit of flow ------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IlpNetwork.h"
#include "IlpLayouts.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

IlpNetwork::IlpNetwork(IlpForms &forms, IntegerProgram &program,
                       ChangeTable &table, unsigned index)
    : forms(forms), program(program), table(table), index(index),
      tensor(forms.tensors[index]), states(forms, table, index),
      nodes(tensor.uses.size()) {
  tensor.summed.resize(tensor.produced.size());
  if (tensor.uses.empty())
    return;
  for (unsigned p = 0; p < tensor.produced.size(); ++p)
    add(nodes[0][states.getFirst(p)].flow, tensor.produced[p].chosen);
  hasArcs = canUseArcs();
  firstOfLast = hasArcs ? tensor.uses.size() - 1 : getFirstOfLast();
  for (unsigned use = 0; use < firstOfLast && !forms.isCut; ++use)
    addUse(use);
  if (!forms.isCut && hasArcs)
    addArcs();
  else if (!forms.isCut && firstOfLast < tensor.uses.size())
    addLastUses();
}

void IlpNetwork::addChange(unsigned use, const Layout &from, const Layout &to,
                           int wanted, bool waits, const ChangeCost &change,
                           const Expr &made) {
  const IlpUse &info = tensor.uses[use];
  forms.changes.push_back({{index, to, info.pass},
                           from,
                           info.stage,
                           made,
                           change,
                           waits,
                           static_cast<int>(use),
                           wanted});
}

//===----------------------------------------------------------------------===//
// From state to state
//===----------------------------------------------------------------------===//

void IlpNetwork::addWays(unsigned use, const IlpState &state, Node &node,
                         std::vector<Expr> &wanted, Changes &changes) {
  Expr out;
  for (unsigned w = 0; w < wanted.size(); ++w) {
    std::vector<IlpWay> ways = states.getWays(state, use, w);
    if (ways.empty())
      continue;
    for (const IlpWay &way : ways) {
      const IlpState *next = nullptr;
      if (use + 1 < nodes.size())
        next = &nodes[use + 1]
                    .try_emplace(states.getNext(state, use, w, way))
                    .first->first;
      bool isChoice = &way != &ways.front() && !way.waits;
      int column = isChoice ? program.addBinary() : program.addContinuous(0, 1);
      Way entry{w, way, {{column, 1}}, next};
      if (isChoice)
        decisions.push_back(column);
      add(out, entry.made);
      add(wanted[w], entry.made);
      if (next)
        add(nodes[use + 1][*next].flow, entry.made);
      if (way.sums)
        add(tensor.summed[state.produced], entry.made);
      if (way.change) {
        auto &[change, made] = changes[{way.from, w, way.waits}];
        change = way.change;
        add(made, entry.made);
      }
      node.ways.push_back(std::move(entry));
    }
  }
  add(out, node.flow, -1);
  program.addRow(out, 0, 0);
}

/// A change costs the same in all states: one column for it. Returns what
/// waits.
Expr IlpNetwork::addChanges(unsigned use, const Changes &changes) {
  Expr waiting;
  for (const auto &[key, entry] : changes) {
    auto [from, w, waits] = key;
    const auto &[change, ways] = entry;
    Expr made = ways;
    if (ways.size() > 1) {
      made = {{program.addContinuous(0, 1), 1}};
      Expr row = ways;
      add(row, made, -1);
      program.addRow(row, 0, 0);
    }
    addChange(use, states.nodes[from], tensor.uses[use].wanted[w].layout,
              static_cast<int>(w), waits, *change, made);
    if (waits)
      add(waiting, made);
  }
  return waiting;
}

void IlpNetwork::addUse(unsigned use) {
  const IlpUse &info = tensor.uses[use];
  std::vector<Expr> wanted(info.wanted.size());
  Changes changes;
  constexpr unsigned kStatesPerCheck = 64;
  unsigned count = 0;
  for (auto &[state, node] : nodes[use]) {
    if (++count % kStatesPerCheck == 0 && !forms.isCut)
      forms.isCut = forms.isStopped();
    if (forms.isCut)
      return;
    addWays(use, state, node, wanted, changes);
  }
  Expr waiting = addChanges(use, changes);
  for (size_t w = 0; w < wanted.size(); ++w) {
    add(wanted[w], info.wanted[w].chosen, -1);
    program.addRow(wanted[w], 0, 0);
  }
  if (waiting.empty())
    return;
  int column = program.addBinary();
  decisions.push_back(column);
  add(waiting, {{column, 1}}, -1);
  program.addRow(waiting, 0, 0);
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

/// Calls `choose(use, state)` for the state before each use, which returns the
/// way that is taken.
template <typename Choose>
void IlpNetwork::walk(unsigned produced, const std::vector<unsigned> &wanted,
                      Choose choose) const {
  IlpState state = states.getFirst(produced);
  for (unsigned use = 0; use < wanted.size(); ++use) {
    IlpWay way = choose(use, state);
    state = states.getNext(state, use, wanted[use], way);
  }
}

/// The first of the ways that is like this; the first of all if none is.
template <typename Like>
static IlpWay findWay(const std::vector<IlpWay> &ways, Like isLike) {
  for (const IlpWay &way : ways)
    if (isLike(way))
      return way;
  return ways.empty() ? IlpWay() : ways.front();
}

std::vector<unsigned> IlpNetwork::getWanted(const IlpSolution &solution,
                                            unsigned &produced) const {
  auto find = [&](const std::vector<IlpLayout> &layouts) {
    unsigned chosen = 0;
    for (unsigned i = 0; i < layouts.size(); ++i)
      if (solution.get(layouts[i].chosen) > 0.5)
        chosen = i;
    return chosen;
  };
  produced = find(tensor.produced);
  std::vector<unsigned> wanted;
  for (const IlpUse &use : tensor.uses)
    wanted.push_back(find(use.wanted));
  return wanted;
}

namespace {
/// A copy on the way through the uses.
struct MadeCopy {
  Layout layout;
  unsigned firstPlace, lastPlace;
};
} // namespace

IlpWay IlpNetwork::getTaken(unsigned use, const IlpState &state,
                            unsigned wanted,
                            const IlpSolution &solution) const {
  std::vector<IlpWay> ways = states.getWays(state, use, wanted);
  if (hasArcs && use + 1 == nodes.size()) {
    bool waits = solution.get(lastWaits) > 0.5;
    return findWay(ways, [&](const IlpWay &way) { return way.waits == waits; });
  }
  if (use >= firstOfLast)
    return ways.empty() || ways.front().from < 0
               ? IlpWay()
               : getLastTaken(ways, use, wanted, solution);
  auto found = nodes[use].find(state);
  if (found == nodes[use].end())
    return ways.empty() ? IlpWay() : ways.front();
  IlpWay taken;
  double most = -1;
  for (const Way &way : found->second.ways)
    if (double value = solution.get(way.made);
        way.wanted == wanted && value > most) {
      most = value;
      taken = way.way;
    }
  return taken;
}

void IlpNetwork::read(const IlpSolution &solution, Plan &plan) const {
  unsigned produced = 0;
  std::vector<unsigned> wanted = getWanted(solution, produced);
  std::vector<unsigned> placeOf(tensor.uses.size());
  for (unsigned place = 0; place < tensor.passes.size(); ++place)
    for (unsigned use : tensor.passes[place].uses)
      placeOf[use] = place;
  std::vector<MadeCopy> copies;
  auto touch = [&](const Layout &layout, unsigned place) {
    for (MadeCopy &copy : copies)
      if (copy.layout == layout)
        copy.lastPlace = place;
  };
  walk(produced, wanted, [&](unsigned use, const IlpState &state) {
    IlpWay way = getTaken(use, state, wanted[use], solution);
    unsigned place = placeOf[use];
    const Layout &layout = tensor.uses[use].wanted[wanted[use]].layout;
    // The state may have forgotten it for a copy that serves as well.
    if (forms.getBase(tensor.produced[produced].layout, layout,
                      tensor.uses[use].pass) == layout)
      return way;
    if (way.from >= 0)
      touch(states.nodes[way.from], place);
    bool exists =
        std::any_of(copies.begin(), copies.end(), [&](const MadeCopy &copy) {
          return copy.layout == layout && copy.lastPlace == place;
        });
    if (way.from < 0)
      touch(layout, place);
    else if (!exists)
      copies.push_back({layout, place, place});
    if (way.waits && !exists)
      plan.waiting.push_back({index, layout, tensor.uses[use].pass});
    return way;
  });
  for (const MadeCopy &copy : copies)
    for (unsigned place = copy.firstPlace; place < copy.lastPlace; ++place)
      plan.kept.push_back({index, copy.layout, tensor.passes[place].pass});
}
