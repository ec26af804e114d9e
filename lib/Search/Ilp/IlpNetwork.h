//===- IlpNetwork.h - copies of a tensor as one unit of flow ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Uses lead from state to state (IlpStates.h). With z(S, w) for a way of a use
// from state S to the layout w,
//
//     sum over w of z(S, w) = flow into S,   sum over S of z(S, w) = x(w):
//
// one unit of flow through a network, whose polytope is whole, so that nothing
// of the tensor is relaxed once signatures x are chosen; but for a choice
// between several ways, which is binary: to wait or not, and between sources of
// which each is better in some respect.
//
// The last uses, in one stage, lead to no state: there the unit of each flows
// from a state to one of its layouts, and from there to what is wanted,
// whatever the state, with a column per pair of layouts instead of one per
// state and layout. A copy that several of them want is made once. Where only
// the sum of a change's seconds matters and there is one such use, it flows
// over changes on one axis instead, of which all others are made, with even
// fewer columns.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_ILPNETWORK_H
#define TANDEM_LIB_SEARCH_ILPNETWORK_H

#include "IlpStates.h"

namespace tandem::search {

class IlpNetwork {
public:
  /// Adds columns and rows, and changes to `forms`.
  IlpNetwork(IlpForms &forms, IntegerProgram &program, cost::ChangeTable &table,
             unsigned index);

  /// Appends the copies of a solution that are kept and that wait.
  void read(const IlpSolution &solution, cost::Plan &plan) const;
  bool hasSourcesOfWaiting() const { return states.hasSourcesOfWaiting; }

private:
  struct Way {
    unsigned wanted;
    IlpWay way;
    Expr made;
    IlpState next;
  };
  struct Node {
    Expr flow;
    std::vector<Way> ways;
  };
  using Nodes = std::map<IlpState, Node>;
  /// By node, layout wanted, and whether it waits: a change, and the ways that
  /// make it.
  using Changes = std::map<std::tuple<int, unsigned, bool>,
                           std::pair<const cost::ChangeCost *, Expr>>;
  /// A layout that exists before the last uses.
  struct Source {
    unsigned node;
    /// The producer's; and whether it can only be taken as it is.
    bool isBase, isFixed;
    auto operator<=>(const Source &) const = default;
  };
  /// One of the last uses.
  struct LastUse {
    /// 1 if the source is taken, and if what is made waits.
    std::map<Source, Expr> supply;
    Expr waits;
  };
  /// From where to where, and whether it waits.
  using Pair = std::tuple<Source, unsigned, bool>;
  using FlowByLayout = std::map<cost::Layout, Expr>;

  int addDecision();
  void addKept(unsigned use);
  void addUse(unsigned use);
  Expr addWanted(unsigned use, const std::vector<Expr> &wanted, Expr waiting);
  void addNeeds(unsigned use, const IlpState &state, unsigned wanted,
                const IlpWay &way, const Expr &made);
  void addWays(unsigned use, const IlpState &state, Node &node,
               std::vector<Expr> &wanted, Changes &changes);
  Expr addChanges(unsigned use, const Changes &changes);
  std::vector<Source> getSources(const IlpState &state) const;
  unsigned getFirstOfLast() const;
  void addLastUses();
  std::map<Source, Expr> addSupply(bool decides);
  std::map<Pair, IlpWay> getPairs(unsigned use) const;
  void addLast(unsigned use, LastUse &last, std::map<Pair, Expr> &shared);
  IlpWay getLastTaken(const std::vector<IlpWay> &ways, unsigned use,
                      unsigned wanted, const IlpSolution &solution) const;
  bool canUseArcs() const;
  void addArcs();
  void addFlow(const FlowByLayout &supply, const FlowByLayout &demand,
               bool waits);
  void addChange(unsigned use, const cost::Layout &from, const cost::Layout &to,
                 int wanted, bool waits, const cost::ChangeCost &change,
                 const Expr &made);
  Way getTaken(unsigned use, const IlpState &state, unsigned wanted,
               const IlpSolution &solution) const;
  std::vector<unsigned> getWanted(const IlpSolution &solution,
                                  unsigned &produced) const;

  IlpForms &forms;
  IntegerProgram &program;
  cost::ChangeTable &table;
  unsigned index;
  IlpTensor &tensor;
  TensorStates states;
  /// Of each use, its pass among `tensor.passes`.
  std::vector<unsigned> placeOf;
  /// Before each use.
  std::vector<Nodes> nodes;
  /// From this use on they are in `lastUses`.
  unsigned firstOfLast = 0;
  std::vector<LastUse> lastUses;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_ILPNETWORK_H
