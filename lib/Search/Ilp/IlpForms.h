//===- IlpForms.h - signatures and copies as columns ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a plan with given stages decides, as columns of an integer program, and
// what follows from it as expressions of these columns:
//
//  * x: a signature of a group of tied operators, binary;
//  * ways through a network for each tensor (IlpNetwork.h);
//  * where memory matters: a copy is kept for the next pass, binary.
//
// Rules are those of Cost.h.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_ILPFORMS_H
#define TANDEM_LIB_SEARCH_ILPFORMS_H

#include "IlpProgram.h"
#include "tandem/Cost/Accounting.h"
#include "tandem/Cost/Cost.h"
#include <map>
#include <memory>

namespace tandem::search {

/// Stages that are given.
struct IlpStages {
  std::vector<unsigned> ends, stageOf;
  /// `ends.size()` if there are no updates.
  unsigned firstUpdate = 0;

  IlpStages(const cost::SearchProblem &problem, std::vector<unsigned> ends);
  unsigned size() const { return static_cast<unsigned>(ends.size()); }
};

/// One stage per operator; arguments are no stages.
std::vector<unsigned> getFinestStages(const cost::SearchProblem &problem);

/// Whether an operator's signature may be chosen; tied operators' are equal.
using IlpChoices = std::vector<std::vector<bool>>;

/// Whether communication and computation are never beside each other but for
/// copies that wait, so that what is made costs the same in any stage.
bool addsUp(const cost::SearchProblem &problem, const IlpChoices &allowed);

/// A layout, and the expression that is 1 if it is chosen.
struct IlpLayout {
  cost::Layout layout;
  Expr chosen;
};

/// An operand.
struct IlpUse {
  unsigned op, operand, stage;
  cost::Pass pass;
  std::vector<IlpLayout> wanted;
  /// By the index of the layout produced and of the one wanted: where memory
  /// matters.
  std::vector<std::vector<Expr>> pairs;
  /// By the index of the layout produced, likewise: the producer's layout, or
  /// its sum over time, is needed up to here; and whether it is at any rate.
  std::vector<Expr> needs, needsSum;
  std::vector<bool> surelyNeeds;
};

/// A copy being made.
struct IlpChange {
  cost::Copy copy;
  cost::Layout from;
  unsigned stage;
  Expr made;
  cost::ChangeCost cost;
  bool waits = false;
  /// The use, and the index of the layout that it wants, which alone it is made
  /// for; -1: perhaps for several.
  int use = -1, wanted = -1;
};

/// Uses of a tensor in one pass, and where memory matters its copies there.
struct IlpPass {
  cost::Pass pass;
  std::vector<unsigned> uses;
  unsigned lastStage = 0;
  /// By layout: made in a stage (of this pass), and kept from the pass before.
  std::map<cost::Layout, std::vector<std::pair<unsigned, Expr>>> made;
  std::map<cost::Layout, int> kept;
};

struct IlpTensor {
  /// -1: exists before the first stage.
  int stage = -1;
  unsigned producer = 0;
  std::vector<IlpLayout> produced;
  std::vector<IlpUse> uses;
  std::vector<IlpPass> passes;
  /// By the index of the layout produced: it is a gradient that is summed over
  /// time; empty if it cannot be.
  std::vector<Expr> summed;
};

class IlpNetwork;

/// What a program does not know of.
enum class IlpFreedom {
  None,
  /// Plans may be too large, for a smaller and tighter program.
  OfMemory,
  /// And copies of gradients may wait even where another source is nearer: with
  /// other stages it might not exist.
  OfSources
};

class IlpForms {
public:
  /// `isStopped` is asked now and then.
  IlpForms(const cost::SearchProblem &problem, const IlpStages &stages,
           const IlpChoices &allowed, cost::ChangeTable &table,
           IntegerProgram &program, IlpFreedom freedom,
           std::function<bool()> isStopped);
  ~IlpForms();
  IlpFreedom freedom;
  /// Whether the making of the program has to end, which leaves it cut off.
  std::function<bool()> isStopped;
  bool isCut = false;

  const cost::SearchProblem &problem;
  const cost::AccountingRules &rules;
  const IlpStages &stages;
  std::vector<IlpTensor> tensors;
  std::vector<IlpChange> changes;
  /// Binary columns that fix a plan: signatures, what waits, what is kept, and
  /// sources where there are several.
  std::vector<int> decisions;

  /// Of each stage the binary column that lets it run ahead; -1 if it makes
  /// nothing again.
  std::vector<int> aheadColumns;

  int getColumn(unsigned op, unsigned signature) const {
    return firstColumn[op] + static_cast<int>(signature);
  }
  /// Whether it exists before the first stage.
  bool isArgument(unsigned op) const;
  bool isAllowed(unsigned op, unsigned signature) const {
    return allowed[op][signature];
  }
  /// Whether copies of the tensor for the pass may wait.
  bool canWait(unsigned index, cost::Pass pass) const;
  /// As the function says.
  bool addsUp = false;
  /// Whether some copy that may wait has another source than its gradient, so
  /// that it may wait with some stages only.
  bool hasSourcesOfWaiting = false;

  /// The decisions of a solution.
  cost::Plan getPlan(const IlpSolution &solution) const;
  /// Asks for a plan that differs in some decision.
  void forbid(const IlpSolution &solution);

  /// The layout from which copies are made, for a use that wants `wanted`.
  cost::Layout getBase(const cost::Layout &produced, const cost::Layout &wanted,
                       cost::Pass pass) const;
  bool isSum(const cost::Layout &produced, const cost::Layout &wanted,
             cost::Pass pass) const;

private:
  void addSignatures();
  void addTensors();
  void addAhead();
  void groupPasses(IlpTensor &tensor);
  const IlpChoices &allowed;
  IntegerProgram &program;
  /// Of each tensor.
  std::vector<std::unique_ptr<IlpNetwork>> networks;
  /// Of each operator.
  std::vector<int> firstColumn;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_ILPFORMS_H
