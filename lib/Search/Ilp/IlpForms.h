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
//  * where memory does not matter, ways through a network for each tensor
//    (IlpNetwork.h);
//  * where it does, y: for a use of a tensor, that it is produced in one layout
//    and wanted in another (a transport between the producer's and the user's
//    signatures); F: a copy is made in a stage from a source, binary where more
//    than one use shares it, else y itself; K: a copy is kept for the next
//    pass, binary.
//
// Rules are those of Cost.h: a copy is made in the stage of its first user in
// the pass, from a source that existed before, and from the cheapest one where
// an optimum might want another.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_ILPFORMS_H
#define TANDEM_LIB_SEARCH_ILPFORMS_H

#include "IlpProgram.h"
#include "tandem/Cost/Cost.h"
#include <map>
#include <memory>

namespace tandem::search {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

/// The queues on which changes communicate under the accountings of HiDup: each
/// in both passes.
constexpr unsigned kForwardQueue = 0, kBackwardQueue = 1;

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
  /// By the index of the layout produced and of the one wanted; empty with
  /// networks.
  std::vector<std::vector<Expr>> pairs;
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

/// Copies of a tensor in one pass.
struct IlpPass {
  cost::Pass pass;
  std::vector<unsigned> uses;
  unsigned firstStage = 0, lastStage = 0;
  std::vector<cost::Layout> wanted;
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
  /// The accounting is one of HiDup's: arguments lie in stages as all operators
  /// do, and a tensor has at most one copy, made of its producer's layout.
  bool isHidup;
  const IlpStages &stages;
  std::vector<IlpTensor> tensors;
  std::vector<IlpChange> changes;

  int getColumn(unsigned op, unsigned signature) const {
    return firstColumn[groupOf[op]] + static_cast<int>(signature);
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
  /// A way to make a copy in a stage of the pass at hand.
  struct Source {
    cost::Layout to;
    unsigned stage;
    /// The layout produced; -1: from another copy.
    int produced;
    cost::Layout from;
    double total;
    bool waits;
    Expr made;
  };

  void addSignatures();
  void addTensors();
  void addPairs(IlpTensor &tensor, unsigned index, IlpUse &use);
  bool isPossible(const IlpTensor &tensor, unsigned index,
                  const cost::Layout &produced, const cost::Layout &wanted,
                  const IlpUse &use);
  void addSums(IlpTensor &tensor);
  void groupPasses(IlpTensor &tensor);
  double getTotal(unsigned tensor, const cost::Layout &from,
                  const cost::Layout &to);

  //--- IlpCopies.cpp
  void addCopies(unsigned index);
  void addKept(unsigned index);
  bool isUsefulSource(unsigned index, const cost::Layout &source,
                      const IlpPass &pass);
  bool isSimple(const IlpTensor &tensor, unsigned place) const;
  void addFromBase(unsigned index, IlpPass &pass, bool isShared);
  void addFromCopies(unsigned index, IlpPass &pass);
  void limitFromCopies(unsigned index, unsigned place);
  void addSupply(unsigned index, unsigned place);
  void limitKept(unsigned index, unsigned place);
  void addCheapest(unsigned index, unsigned place);
  void addCheapestOf(unsigned index, unsigned place, const cost::Layout &to,
                     unsigned stage);
  void addSource(unsigned index, IlpPass &pass, Source source);
  /// Pairs of uses in a stage that take a copy: of one layout produced, or of
  /// all (-1).
  Expr getUsers(unsigned index, const IlpPass &pass, const cost::Layout &wanted,
                unsigned stage, int produced) const;
  /// The copy exists before the stage.
  Expr getExisting(unsigned index, unsigned place, const cost::Layout &layout,
                   unsigned stage);
  std::vector<cost::Layout> getCopyLayouts(const IlpPass &pass) const;
  /// Columns that fix the decisions: of signatures, waiting and kept copies.
  std::vector<int> getDecisions() const;

  const IlpChoices &allowed;
  cost::ChangeTable &table;
  IntegerProgram &program;
  /// Of each tensor; empty with pairs.
  std::vector<std::unique_ptr<IlpNetwork>> networks;
  std::vector<unsigned> groupOf;
  std::vector<int> firstColumn;
  /// Columns of signatures that have a choice.
  std::vector<int> choices;
  std::vector<std::pair<cost::Copy, int>> waitColumns;
  std::vector<Source> sources;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_ILPFORMS_H
