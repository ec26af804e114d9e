//===- Improve.h - improvement by small changes -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Descends from a plan by changes of one operator's signature (alone, in all
// repeated layers, or with those next to it), of one cut and of one copy. Costs
// are exact, stages stay. Where a plan does not fit into the memory limit, what
// it holds too much is lowered first.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_IMPROVE_IMPROVE_H
#define TANDEM_LIB_SEARCH_TANDEM_IMPROVE_IMPROVE_H

#include "Tandem/Improve/Editor.h"
#include "Tandem/Relaxation/Factors.h"
#include <functional>

namespace tandem::search {

class PlanImprover {
public:
  /// `repeats` says which variables move together (Tandem/Relaxation/Fold.h).
  PlanImprover(const FactorGraph &graph, cost::ChangeTable &table,
               const std::vector<unsigned> &repeats);

  /// How far a descent looks: changes of one unit, or also of those next to it.
  enum class Reach { Units, Neighbours };

  /// A plan that is no worse than `plan`, which `cost` accepts but for its
  /// memory. Stops when no change helps, when `work` (tensors and stages that
  /// are looked at) is used up, or when `proceeds` says so.
  cost::Plan improve(const cost::Plan &plan, Reach reach, uint64_t &work,
                     const std::function<bool()> &proceeds);

  /// A plan that random changes lead to, of which those that cost more become
  /// rarer and rarer (Tandem/Improve/Anneal.cpp); maybe a worse one. `heat` is
  /// what a change may cost at first, as a share of the plan.
  cost::Plan anneal(const cost::Plan &plan, double heat, uint64_t &work,
                    const std::function<bool()> &proceeds);

private:
  /// Operators that get one signature, and the units next to them.
  struct Unit {
    std::vector<unsigned> operators;
    unsigned numValues;
    std::vector<unsigned> neighbours;
  };
  void addUnits(const std::vector<unsigned> &representatives);
  bool mayGoOn() const;
  bool take(const PlanEditor::Mark &mark, bool isLegal);
  bool sweepForms();
  bool sweepCuts();
  bool sweepCopies();
  bool sweepNeighbours();
  bool tryWithNeighbours(const Unit &unit, unsigned value);
  bool tryCutWithNeighbours(unsigned op);
  bool sweepCutsWithNeighbours();
  double getFar() const;
  bool moveCut(unsigned op);
  bool change(double choice, uint64_t number, bool hasPair);
  unsigned getValue(const Unit &unit) const {
    return editor.getSignatures()[unit.operators.front()];
  }

  const FactorGraph &graph;
  const cost::SearchProblem &problem;
  PlanEditor editor;
  std::vector<Unit> units;
  /// Those with several values.
  std::vector<unsigned> choosable;
  /// Of each operator the unit without its repetitions.
  std::vector<unsigned> ownUnits;
  Score best;
  uint64_t limit = 0;
  /// Calls of `mayGoOn`; few of them ask `proceeds`.
  mutable unsigned numAsked = 0;
  uint64_t numAnnealed = 0;
  /// The unit that the next sweep with neighbours begins with.
  size_t nextUnit = 0;
  const std::function<bool()> *proceeds = nullptr;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_IMPROVE_IMPROVE_H
