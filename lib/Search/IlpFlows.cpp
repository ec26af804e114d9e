//===- IlpFlows.cpp - copies as flows over layouts ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where costs add up and memory does not matter, a copy is kept for nothing and
// made from the cheapest of all layouts that were there before. So what the
// rest of a tensor's uses can see is what each layout costs from those that
// exist: a state. Uses lead from state to state,
//
//     sum over w of z(S, w) = flow into S,   sum over S of z(S, w) = x(w),
//
// with z(S, w) at the seconds from S to w. That is one unit of flow through a
// network, whose polytope is whole: nothing of the tensor is relaxed. The last
// use leads to no state; there the unit flows from a layout of S over the arcs
// of `LayoutGraph` to the one that is wanted, with few columns per layout.
//
//===----------------------------------------------------------------------===//

#include "IlpForms.h"
#include "IlpLayouts.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

/// Some signature makes work for every strand, or sums over them.
static bool isOverTime(const SearchProblem &problem) {
  return std::any_of(problem.signatureSets.begin(), problem.signatureSets.end(),
                     [&](const SignatureSet &set) {
                       return std::any_of(set.begin(), set.end(),
                                          [&](const Signature &s) {
                                            return problem.isOverTime(s);
                                          });
                     });
}

bool IlpForms::canFlow() const { return addsUp && !isOverTime(problem); }

/// Not of tensors with uses in the stage of another use or of their producer,
/// and not of gradients that several updates want: which of their copies may
/// wait depends on the others.
bool IlpForms::canFlow(unsigned index) const {
  const IlpTensor &tensor = tensors[index];
  int last = tensor.stage;
  unsigned numUpdates = 0;
  for (const IlpUse &use : tensor.uses) {
    if (static_cast<int>(use.stage) <= last)
      return false;
    last = static_cast<int>(use.stage);
    numUpdates += use.pass == Pass::Update;
  }
  return numUpdates < 2 || !canWait(index, Pass::Update);
}

//===----------------------------------------------------------------------===//
// The network of a tensor
//===----------------------------------------------------------------------===//

namespace {
/// Layouts that exist, the producer's first, without those that make nothing
/// cheaper; by node of the graph.
using Members = std::vector<unsigned>;
/// Flow into each state.
using States = std::map<Members, Expr>;

class TensorNetwork {
public:
  TensorNetwork(IlpForms &forms, IntegerProgram &program, ChangeTable &table,
                unsigned index, bool lastWaits)
      : forms(forms), program(program), table(table), index(index),
        tensor(forms.tensors[index]), lastWaits(lastWaits),
        graph(table, index, forms.problem.getNumStrands(), getEnds(tensor)) {}

  void build();

private:
  static std::vector<Layout> getEnds(const IlpTensor &tensor);
  double getSeconds(const Members &members, unsigned to, unsigned &from) const;
  Members getState(Members members, unsigned nextUse) const;
  bool isUseful(const Members &members, size_t which, unsigned nextUse) const;
  States addUse(unsigned use, const States &states);
  void addLastUse(const States &states);
  /// One unit from `supply` to `demand`, both by node.
  void addFlow(const IlpUse &use, const std::vector<Expr> &supply,
               const std::vector<Expr> &demand, bool waits);
  Expr addChange(const IlpUse &use, unsigned from, unsigned to, bool waits);

  IlpForms &forms;
  IntegerProgram &program;
  ChangeTable &table;
  unsigned index;
  IlpTensor &tensor;
  /// The last use is an update whose copy may wait.
  bool lastWaits;
  LayoutGraph graph;
};
} // namespace

std::vector<Layout> TensorNetwork::getEnds(const IlpTensor &tensor) {
  std::vector<Layout> ends;
  for (const IlpLayout &entry : tensor.produced)
    ends.push_back(entry.layout);
  for (const IlpUse &use : tensor.uses)
    for (const IlpLayout &entry : use.wanted)
      ends.push_back(entry.layout);
  return ends;
}

double TensorNetwork::getSeconds(const Members &members, unsigned to,
                                 unsigned &from) const {
  double least = kInfinity;
  for (unsigned member : members)
    if (double seconds = graph.getSeconds(member, to); seconds < least) {
      least = seconds;
      from = member;
    }
  return least;
}

/// Whether the member makes something cheaper that a later use may want.
bool TensorNetwork::isUseful(const Members &members, size_t which,
                             unsigned nextUse) const {
  Members others = members;
  others.erase(others.begin() + static_cast<ptrdiff_t>(which));
  for (unsigned u = nextUse; u < tensor.uses.size(); ++u)
    for (const IlpLayout &entry : tensor.uses[u].wanted) {
      unsigned to = graph.getNode(entry.layout), from = 0;
      if (graph.getSeconds(members[which], to) < getSeconds(others, to, from))
        return true;
    }
  return false;
}

/// A gradient stays, as what waits is made of it alone; copies are in order.
Members TensorNetwork::getState(Members members, unsigned nextUse) const {
  std::sort(members.begin() + lastWaits, members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
  for (size_t i = members.size(); i-- > lastWaits;)
    if (members.size() > 1 && !isUseful(members, i, nextUse))
      members.erase(members.begin() + static_cast<ptrdiff_t>(i));
  return members;
}

Expr TensorNetwork::addChange(const IlpUse &use, unsigned from, unsigned to,
                              bool waits) {
  Expr column{{program.addContinuous(0, 1), 1}};
  const Layout &source = graph.nodes[from], &target = graph.nodes[to];
  forms.changes.push_back({{index, target, use.pass},
                           source,
                           use.stage,
                           column,
                           table.getCost(index, source, target),
                           waits});
  return column;
}

States TensorNetwork::addUse(unsigned u, const States &states) {
  const IlpUse &use = tensor.uses[u];
  States next;
  std::vector<Expr> wanted(use.wanted.size());
  for (const auto &[members, flow] : states) {
    Expr out;
    for (size_t w = 0; w < use.wanted.size(); ++w) {
      unsigned to = graph.getNode(use.wanted[w].layout), from = 0;
      if (getSeconds(members, to, from) == kInfinity)
        continue;
      Expr column = addChange(use, from, to, false);
      add(out, column);
      add(wanted[w], column);
      Members after = members;
      after.push_back(to);
      add(next[getState(std::move(after), u + 1)], column);
    }
    add(out, flow, -1);
    program.addRow(out, 0, 0);
  }
  for (size_t w = 0; w < use.wanted.size(); ++w) {
    add(wanted[w], use.wanted[w].chosen, -1);
    program.addRow(wanted[w], 0, 0);
  }
  return next;
}

void TensorNetwork::addFlow(const IlpUse &use, const std::vector<Expr> &supply,
                            const std::vector<Expr> &demand, bool waits) {
  std::vector<unsigned> from, to;
  for (unsigned n = 0; n < graph.nodes.size(); ++n) {
    if (!supply[n].empty())
      from.push_back(n);
    if (!demand[n].empty())
      to.push_back(n);
  }
  std::vector<Expr> rows = demand;
  for (unsigned n = 0; n < graph.nodes.size(); ++n)
    add(rows[n], supply[n], -1);
  for (const LayoutArc &arc : graph.arcs) {
    if (!graph.isOnWay(arc, from, to))
      continue;
    Expr column = addChange(use, arc.from, arc.to, waits);
    add(rows[arc.from], column);
    add(rows[arc.to], column, -1);
  }
  for (const Expr &row : rows)
    program.addRow(row, 0, 0);
}

void TensorNetwork::addLastUse(const States &states) {
  IlpUse &use = tensor.uses.back();
  size_t size = graph.nodes.size();
  std::vector<Expr> supply(size), waitingSupply(size), demand(size);
  for (const auto &[members, flow] : states) {
    Expr rest = flow;
    for (size_t i = 1; i < members.size(); ++i) {
      Expr column{{program.addContinuous(0, 1), 1}};
      add(supply[members[i]], column);
      add(rest, column, -1);
    }
    if (members.size() > 1)
      program.addRow(rest, 0, kInfinity);
    add((lastWaits ? waitingSupply : supply)[members.front()], rest);
  }
  for (const IlpLayout &entry : use.wanted)
    demand[graph.getNode(entry.layout)] = entry.chosen;
  if (!lastWaits)
    return addFlow(use, supply, demand, false);
  std::vector<Expr> waiting = demand;
  if (std::any_of(supply.begin(), supply.end(),
                  [](const Expr &expr) { return !expr.empty(); })) {
    for (unsigned n = 0; n < size; ++n)
      if (!demand[n].empty()) {
        waiting[n] = {{program.addContinuous(0, 1), 1}};
        program.addLess(waiting[n], demand[n]);
        add(demand[n], waiting[n], -1);
      }
    addFlow(use, supply, demand, false);
  }
  for (const Expr &expr : waitingSupply)
    add(use.waits, expr);
  addFlow(use, waitingSupply, waiting, true);
}

void TensorNetwork::build() {
  States states;
  for (const IlpLayout &entry : tensor.produced)
    states[{graph.getNode(entry.layout)}] = entry.chosen;
  for (unsigned u = 0; u < tensor.uses.size(); ++u)
    if (u + 1 < tensor.uses.size())
      states = addUse(u, states);
    else
      addLastUse(states);
}

void IlpForms::addFlows(unsigned index) {
  IlpTensor &tensor = tensors[index];
  tensor.isFlow = true;
  bool lastWaits =
      !tensor.uses.empty() && canWait(index, tensor.uses.back().pass);

  TensorNetwork(*this, program, table, index, lastWaits).build();
}

//===----------------------------------------------------------------------===//
// A solution
//===----------------------------------------------------------------------===//

namespace {
struct FlowCopy {
  Layout layout;
  unsigned stage, firstPlace, lastPlace;
};
} // namespace

/// The cheapest ways again, as `cost` finds them; what a later pass takes is
/// kept.
void IlpForms::addFlowCopies(unsigned index, const IlpSolution &solution,
                             Plan &plan) const {
  const IlpTensor &tensor = tensors[index];
  auto getLayout = [&](const std::vector<IlpLayout> &layouts) {
    for (const IlpLayout &entry : layouts)
      if (solution.get(entry.chosen) > 0.5)
        return entry.layout;
    return layouts.front().layout;
  };
  Layout produced = getLayout(tensor.produced);
  auto getSeconds = [&](const Layout &from, const Layout &to) {
    const ChangeCost &change = table.getCost(index, from, to);
    return change.isPossible ? change.getTotal(problem.getNumStrands())
                             : kInfinity;
  };
  std::vector<FlowCopy> copies;
  for (unsigned place = 0; place < tensor.passes.size(); ++place)
    for (unsigned u : tensor.passes[place].uses) {
      const IlpUse &use = tensor.uses[u];
      Layout wanted = getLayout(use.wanted);
      if (wanted == produced)
        continue;
      if (solution.get(use.waits) > 0.5) {
        if (getSeconds(produced, wanted) > 0)
          plan.waiting.push_back({index, wanted, use.pass});
        continue;
      }
      FlowCopy *source = nullptr;
      double least = getSeconds(produced, wanted);
      for (FlowCopy &copy : copies) {
        if (copy.layout == wanted) {
          source = &copy;
          break;
        }
        double seconds = getSeconds(copy.layout, wanted);
        if (copy.stage < use.stage && seconds < least) {
          source = &copy;
          least = seconds;
        }
      }
      if (source)
        source->lastPlace = place;
      if (!source || source->layout != wanted)
        copies.push_back({wanted, use.stage, place, place});
    }
  for (const FlowCopy &copy : copies)
    for (unsigned place = copy.firstPlace; place < copy.lastPlace; ++place)
      plan.kept.push_back({index, copy.layout, tensor.passes[place].pass});
}
