//===- IlpNetwork.cpp - copies of a tensor as one unit of flow ------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IlpNetwork.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

IlpNetwork::IlpNetwork(IlpForms &forms, IntegerProgram &program,
                       ChangeTable &table, unsigned index)
    : forms(forms), program(program), table(table), index(index),
      tensor(forms.tensors[index]), states(forms, table, index),
      nodes(tensor.uses.size()) {
  tensor.summed.resize(tensor.produced.size());
  for (unsigned place = 0; place < tensor.passes.size(); ++place)
    placeOf.insert(placeOf.end(), tensor.passes[place].uses.size(), place);
  if (tensor.uses.empty())
    return;
  for (unsigned p = 0; p < tensor.produced.size(); ++p)
    add(nodes[0][states.getFirst(p)].flow, tensor.produced[p].chosen);
  bool hasArcs = canUseArcs();
  firstOfLast = hasArcs ? tensor.uses.size() - 1 : getFirstOfLast();
  for (unsigned use = 0; use < firstOfLast && !forms.isCut; ++use) {
    addKept(use);
    addUse(use);
  }
  if (!forms.isCut && hasArcs)
    addArcs();
  else if (!forms.isCut && firstOfLast < tensor.uses.size())
    addLastUses();
}

int IlpNetwork::addDecision() {
  return forms.decisions.emplace_back(program.addBinary());
}

void IlpNetwork::addChange(unsigned use, const Layout &from, const Layout &to,
                           int wanted, bool waits, const ChangeCost &change,
                           const Expr &made) {
  const IlpUse &info = tensor.uses[use];
  if (states.knowsMemory)
    tensor.passes[placeOf[use]].made[to].emplace_back(info.stage, made);
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

/// Where memory matters, what the way needs of what was produced.
void IlpNetwork::addNeeds(unsigned use, const IlpState &state, unsigned wanted,
                          const IlpWay &way, const Expr &made) {
  IlpUse &info = tensor.uses[use];
  add(info.pairs[state.produced][wanted], made);
  if (!states.needsProduced(state, use, wanted, way)) {
    info.surelyNeeds[state.produced] = false;
    return;
  }
  bool isSum = states.isSum(state, use, wanted);
  if (isSum)
    info.surelyNeeds[state.produced] = false;
  add((isSum ? info.needsSum : info.needs)[state.produced], made);
}

void IlpNetwork::addWays(unsigned use, const IlpState &state, Node &node,
                         std::vector<Expr> &wanted, Changes &changes) {
  Expr out;
  for (unsigned w = 0; w < wanted.size(); ++w) {
    std::vector<IlpWay> ways = states.getWays(state, use, w);
    if (ways.empty())
      continue;
    for (const IlpWay &way : ways) {
      bool isChoice = &way != &ways.front() && !way.waits;
      for (IlpState &next : states.getNext(state, use, w, way)) {
        int column = isChoice ? addDecision() : program.addContinuous(0, 1);
        Expr made{{column, 1}};
        add(out, made);
        add(wanted[w], made);
        if (use + 1 < nodes.size())
          add(nodes[use + 1][next].flow, made);
        if (way.sums)
          add(tensor.summed[state.produced], made);
        if (states.knowsMemory)
          addNeeds(use, state, w, way, made);
        if (way.change) {
          auto &[change, ways] = changes[{way.from, w, way.waits}];
          change = way.change;
          add(ways, made);
        }
        node.ways.push_back({w, way, std::move(made), std::move(next)});
      }
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

/// Where memory matters, which copies of the pass before are kept.
void IlpNetwork::addKept(unsigned use) {
  IlpPass &pass = tensor.passes[placeOf[use]];
  if (!states.knowsMemory || pass.uses.front() != use)
    return;
  std::map<unsigned, Expr> holding;
  for (const auto &[state, node] : nodes[use])
    for (const IlpMember &copy : state.copies)
      add(holding[copy.node], node.flow);
  for (auto &[node, flow] : holding) {
    int column = addDecision();
    pass.kept[states.nodes[node]] = column;
    add(flow, {{column, 1}}, -1);
    program.addRow(flow, 0, 0);
  }
}

void IlpNetwork::addUse(unsigned use) {
  IlpUse &info = tensor.uses[use];
  if (states.knowsMemory) {
    info.pairs.assign(tensor.produced.size(),
                      std::vector<Expr>(info.wanted.size()));
    info.needs.assign(tensor.produced.size(), {});
    info.needsSum = info.needs;
    info.surelyNeeds.assign(tensor.produced.size(), true);
  }
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
  addWanted(use, wanted, addChanges(use, changes));
}

/// Of the layouts that the use can want, the chosen one comes about. Returns 1
/// if what is made for it waits, which is decided.
Expr IlpNetwork::addWanted(unsigned use, const std::vector<Expr> &wanted,
                           Expr waiting) {
  for (size_t w = 0; w < wanted.size(); ++w) {
    Expr row = wanted[w];
    add(row, tensor.uses[use].wanted[w].chosen, -1);
    program.addRow(row, 0, 0);
  }
  if (waiting.empty())
    return {};
  Expr decision{{addDecision(), 1}};
  add(waiting, decision, -1);
  program.addRow(waiting, 0, 0);
  return decision;
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

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

IlpNetwork::Way IlpNetwork::getTaken(unsigned use, const IlpState &state,
                                     unsigned wanted,
                                     const IlpSolution &solution) const {
  auto lead = [&](const IlpWay &way) {
    return Way{
        wanted, way, {}, states.getNext(state, use, wanted, way).front()};
  };
  std::vector<IlpWay> ways = states.getWays(state, use, wanted);
  if (use >= firstOfLast)
    return lead(ways.empty() || ways.front().from < 0
                    ? IlpWay()
                    : getLastTaken(ways, use, wanted, solution));
  auto found = nodes[use].find(state);
  if (found == nodes[use].end())
    return lead(ways.empty() ? IlpWay() : ways.front());
  Way taken;
  double most = -1;
  for (const Way &way : found->second.ways)
    if (double value = solution.get(way.made);
        way.wanted == wanted && value > most) {
      most = value;
      taken = way;
    }
  return taken;
}

void IlpNetwork::read(const IlpSolution &solution, Plan &plan) const {
  unsigned produced = 0;
  std::vector<unsigned> wanted = getWanted(solution, produced);
  std::vector<MadeCopy> copies;
  // The latest one: those of earlier passes were not kept.
  auto find = [&](const Layout &layout) {
    return std::find_if(
        copies.rbegin(), copies.rend(),
        [&](const MadeCopy &copy) { return copy.layout == layout; });
  };
  auto touch = [&](const Layout &layout, unsigned place) {
    if (auto copy = find(layout); copy != copies.rend())
      copy->lastPlace = place;
  };
  // Whether the pass reads the tensor.
  std::vector<bool> isUsed(tensor.passes.size());
  IlpState state = states.getFirst(produced);
  for (unsigned use = 0; use < tensor.uses.size(); ++use) {
    auto [_, way, made, next] = getTaken(use, state, wanted[use], solution);
    state = next;
    unsigned place = placeOf[use];
    const Layout &layout = tensor.uses[use].wanted[wanted[use]].layout;
    if (layout.isAbsent())
      continue;
    isUsed[place] = true;
    // The state may have forgotten it for a copy that serves as well.
    if (forms.getBase(tensor.produced[produced].layout, layout,
                      tensor.uses[use].pass) == layout)
      continue;
    if (way.from >= 0)
      touch(states.nodes[way.from], place);
    auto copy = find(layout);
    bool exists = copy != copies.rend() && copy->lastPlace == place;
    if (way.from < 0)
      touch(layout, place);
    else if (!exists)
      copies.push_back({layout, place, place});
    if (way.waits && !exists)
      plan.waiting.push_back({index, layout, tensor.uses[use].pass});
  }
  for (const MadeCopy &copy : copies)
    for (unsigned place = copy.firstPlace; place < copy.lastPlace; ++place)
      if (isUsed[place])
        plan.kept.push_back({index, copy.layout, tensor.passes[place].pass});
}
