//===- IlpNetworkEnds.cpp - ends of a tensor's flow -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IlpNetwork.h"
#include <algorithm>
#include <set>

using namespace tandem::cost;
using namespace tandem::search;

/// The first of the uses behind which all are in its stage and pass; the number
/// of uses, if they may want a sum over time, or what they have is not all that
/// decides about their copies.
unsigned IlpNetwork::getFirstOfLast() const {
  if (!forms.rules.decidesCopies || states.knowsMemory || states.hasAbsent())
    return tensor.uses.size();
  const IlpUse &last = tensor.uses.back();
  for (const IlpLayout &produced : tensor.produced)
    for (const IlpLayout &wanted : last.wanted)
      if (forms.isSum(produced.layout, wanted.layout, last.pass))
        return tensor.uses.size();
  unsigned first = tensor.uses.size() - 1;
  while (first > 0 && tensor.uses[first - 1].stage == last.stage &&
         tensor.uses[first - 1].pass == last.pass)
    --first;
  return first;
}

std::vector<IlpNetwork::Source>
IlpNetwork::getSources(const IlpState &state) const {
  std::vector<Source> sources;
  bool isMade = tensor.stage >= int(tensor.uses.back().stage);
  for (const IlpMember &copy : state.copies)
    sources.push_back({copy.node, false, copy.isFresh});
  if (state.produced >= 0)
    sources.push_back({states.getProduced(state.produced), true, isMade});
  return sources;
}

/// What flows from each source. `decides`: where a state has several, one of
/// them is taken as a whole. Flow that is left over, for which no column is
/// made, is that of the last source: the solver is faster with a copy there
/// where one is decided on, and else with what was produced.
std::map<IlpNetwork::Source, Expr> IlpNetwork::addSupply(bool decides) {
  std::map<Source, Expr> supply;
  std::set<Source> choices;
  for (const auto &[state, node] : nodes[firstOfLast]) {
    std::vector<Source> sources = getSources(state);
    if (decides)
      std::reverse(sources.begin(), sources.end());
    Expr rest = node.flow;
    // Nothing that is left leads on.
    if (sources.empty()) {
      program.addRow(rest, 0, 0);
      continue;
    }
    for (size_t i = 0; i + 1 < sources.size(); ++i) {
      Expr column{{program.addContinuous(0, 1), 1}};
      add(supply[sources[i]], column);
      add(rest, column, -1);
    }
    if (sources.size() > 1) {
      program.addRow(rest, 0, kInfinity);
      choices.insert(sources.begin(), sources.end());
    }
    add(supply[sources.back()], rest);
  }
  if (decides)
    for (const Source &source : choices) {
      Expr row = supply[source];
      add(row, {{addDecision(), 1}}, -1);
      program.addRow(row, 0, 0);
    }
  return supply;
}

/// Which ways some state takes, by source.
std::map<IlpNetwork::Pair, IlpWay> IlpNetwork::getPairs(unsigned use) const {
  std::map<Pair, IlpWay> pairs;
  for (const auto &[state, node] : nodes[firstOfLast])
    for (unsigned w = 0; w < tensor.uses[use].wanted.size(); ++w) {
      unsigned to = states.getWanted(use, w);
      for (const IlpWay &way : states.getWays(state, use, w))
        for (const Source &source : getSources(state))
          if (source.node == (way.from < 0 ? to : unsigned(way.from)))
            pairs.try_emplace({source, w, way.waits}, way);
    }
  return pairs;
}

/// `shared`: what is made for several uses, by what is wanted.
void IlpNetwork::addLast(unsigned use, LastUse &last,
                         std::map<Pair, Expr> &shared) {
  last.supply = addSupply(/*decides=*/true);
  const IlpUse &info = tensor.uses[use];
  std::vector<Expr> wanted(info.wanted.size());
  std::map<Source, Expr> out;
  Expr waiting;
  for (const auto &[pair, way] : getPairs(use)) {
    auto [source, w, waits] = pair;
    Expr column{{program.addContinuous(0, 1), 1}};
    add(out[source], column);
    add(wanted[w], column);
    if (waits)
      add(waiting, column);
    if (!way.change)
      continue;
    Expr &made = shared[{source, states.getWanted(use, w), waits}];
    bool isFirst = made.empty();
    if (isFirst)
      made = {{program.addContinuous(0, 1), 1}};
    program.addLess(column, made);
    if (isFirst)
      addChange(use, states.nodes[way.from], info.wanted[w].layout,
                use + 1 == tensor.uses.size() ? int(w) : -1, waits, *way.change,
                made);
  }
  for (const auto &[source, supply] : last.supply) {
    Expr row = out[source];
    add(row, supply, -1);
    program.addRow(row, 0, 0);
  }
  last.waits = addWanted(use, wanted, waiting);
}

void IlpNetwork::addLastUses() {
  std::map<Pair, Expr> shared;
  for (unsigned use = firstOfLast; use < tensor.uses.size(); ++use)
    addLast(use, lastUses.emplace_back(), shared);
}

IlpWay IlpNetwork::getLastTaken(const std::vector<IlpWay> &ways, unsigned use,
                                unsigned wanted,
                                const IlpSolution &solution) const {
  const LastUse &last = lastUses[use - firstOfLast];
  bool waits = solution.get(last.waits) > 0.5;
  IlpWay taken = ways.front();
  double most = -1;
  for (const IlpWay &way : ways) {
    double value = 0;
    unsigned node = way.from < 0 ? states.getWanted(use, wanted) : way.from;
    for (const auto &[source, supply] : last.supply)
      if (source.node == node)
        value += solution.get(supply);
    if ((way.from < 0 || way.waits == waits) && value > most) {
      most = value;
      taken = way;
    }
  }
  return taken;
}

//===----------------------------------------------------------------------===//
// The last use, over arcs
//===----------------------------------------------------------------------===//

/// Sources are there before the last use, and what waits is made of the
/// gradient alone.
bool IlpNetwork::canUseArcs() const {
  const IlpUse &last = tensor.uses.back();
  bool isAlone = tensor.uses.size() == 1 ||
                 tensor.uses[tensor.uses.size() - 2].stage < last.stage;
  bool isOnlyUpdate = tensor.uses.size() == 1 ||
                      tensor.uses[tensor.uses.size() - 2].pass != last.pass;
  return states.isScalar && !states.knowsMemory && !states.hasAbsent() &&
         isAlone && tensor.stage < int(last.stage) &&
         (isOnlyUpdate || !forms.canWait(index, last.pass));
}

/// Over the steps of the cheapest sequences, which cost the same wherever they
/// stand.
void IlpNetwork::addFlow(const FlowByLayout &supply, const FlowByLayout &demand,
                         bool waits) {
  // Where to, and where from.
  std::set<std::pair<Layout, Layout>> arcs;
  FlowByLayout rows = demand;
  for (const auto &[source, flow] : supply) {
    add(rows[source], flow, -1);
    for (const auto &[target, chosen] : demand) {
      Layout place = source;
      for (const AxisChange &step : table.getSequence(index, source, target)) {
        Layout before = place;
        place[step.axis] = step.to;
        arcs.emplace(place, before);
      }
    }
  }
  for (const auto &[to, from] : arcs) {
    Expr column{{program.addContinuous(0, 1), 1}};
    addChange(tensor.uses.size() - 1, from, to, -1, waits,
              table.getCost(index, from, to), column);
    add(rows[from], column);
    add(rows[to], column, -1);
  }
  for (const auto &[layout, row] : rows)
    program.addRow(row, 0, 0);
}

/// Whatever flows from a gradient waits; from copies nothing does.
void IlpNetwork::addArcs() {
  const IlpUse &use = tensor.uses.back();
  bool canWait = forms.canWait(index, use.pass);
  LastUse &last = lastUses.emplace_back();
  last.supply = addSupply(/*decides=*/false);
  FlowByLayout supply, waitingSupply, demand;
  for (const auto &[source, flow] : last.supply) {
    bool waits = canWait && source.isBase;
    add((waits ? waitingSupply : supply)[states.nodes[source.node]], flow);
    if (waits)
      add(last.waits, flow);
  }
  for (const IlpLayout &entry : use.wanted)
    demand[entry.layout] = entry.chosen;
  if (!canWait)
    return addFlow(supply, demand, false);
  FlowByLayout waiting = demand;
  if (!supply.empty()) {
    for (auto &[layout, flow] : demand) {
      waiting[layout] = {{program.addContinuous(0, 1), 1}};
      program.addLess(waiting[layout], flow);
      add(flow, waiting[layout], -1);
    }
    addFlow(supply, demand, false);
  }
  addFlow(waitingSupply, waiting, true);
}
