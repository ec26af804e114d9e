//===- Editor.h - editor of a plan ------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Holds a plan with what its stages do and hold, so that a change of a
// signature, a cut, or of what is kept or waits is costed in the time that the
// change itself takes: some microseconds, where `cost` looks at all operators.
// `cost` and this agree up to rounding; whoever keeps a plan asks `cost`.
//
// Changes are tentative until `keep`; `undo` takes back all that were made
// behind a mark.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_IMPROVE_EDITOR_H
#define TANDEM_LIB_SEARCH_TANDEM_IMPROVE_EDITOR_H

#include "Tandem/Improve/CopyPlacer.h"
#include "Tandem/Limits.h"
#include "tandem/Cost/Line.h"

namespace tandem::search {

/// What a plan is worth: what it holds too much counts first.
struct Score {
  double seconds = std::numeric_limits<double>::infinity();
  /// Bytes above the memory limit, summed over the stages.
  int64_t excess = std::numeric_limits<int64_t>::max();
  /// Where there is a limit, the most that is held.
  int64_t peak = 0;

  /// Whether this is better by more than rounding.
  bool isBetterThan(const Score &other) const {
    if (excess != other.excess)
      return excess < other.excess;
    return seconds < other.seconds * (1 - kEqualCost);
  }
};

class PlanEditor {
public:
  PlanEditor(const Facts &facts, cost::ChangeTable &table);

  /// Begins with a plan that `cost` accepts.
  void set(const cost::Plan &plan);
  cost::Plan getPlan() const;
  const std::vector<unsigned> &getSignatures() const {
    return edited.signatures;
  }

  //--- Changes. False if there is no such plan; then the change has to be
  // undone. Cuts that new copies need are added.
  bool setSignatures(const std::vector<unsigned> &ops, unsigned signature);
  /// Those of all operators.
  bool setSignatures(const std::vector<unsigned> &all);
  /// Gives the operators the best signature, with all else as it is; false if
  /// that is the one that they have.
  bool settleSignatures(const std::vector<unsigned> &ops);
  /// Begins a stage with operator `op`, or begins none there. Nothing may be
  /// changed before the first operator and between the passes.
  bool setCut(unsigned op, bool cuts);
  bool hasCut(unsigned op) const { return edited.stageOf[op] == op; }
  bool mayChangeCut(unsigned op) const;
  /// Keeps a copy that would be dropped behind its pass, or the reverse.
  bool toggleKept(const cost::Copy &copy);
  /// Lets a copy of a gradient wait, or not.
  bool toggleWaiting(const cost::Copy &copy);

  Score getScore();
  /// With the excess above this limit, summed over operators instead of stages:
  /// it falls when one of several peaks does.
  Score getScoreByOperator(int64_t limit);

  struct Mark {
    size_t numWorks, numTensors, numSignatures, numStages, numFlips;
    unsigned firstChanged, lastChanged;
    int64_t argumentBytes;
  };
  Mark mark() const;
  void undo(const Mark &mark);
  /// Makes all changes final.
  void keep();

  /// Copies that are made and could be kept for the next pass, or be dropped;
  /// those of gradients that could wait.
  std::vector<cost::Copy> listKeepable() const;
  std::vector<cost::Copy> listWaitable() const;
  /// Changes of layout in a step that take time on a link, of all strands.
  int64_t countCollectives() const;
  /// Tensors recomputed and stages looked at so far.
  uint64_t getWork() const { return work; }

private:
  /// A stage is named by its first operator.
  struct EditedStage {
    cost::StageWork work;
    double leaving = 0;
    int numJoins = 0, numOverTime = 0, numWaiting = 0;
  };
  /// What waits, for the account of memory: it is held by stages.
  struct Waiting : cost::WaitQueue {
    /// Of each waiter its tensor, and which of its copies it is.
    std::vector<std::pair<unsigned, unsigned>> copies;
  };

  //--- Tandem/Improve/Editor.cpp
  void rebuild();
  void logStage(unsigned stage);
  void addOperator(unsigned op, int sign);
  void queueTensors(unsigned op);
  void queueTensor(unsigned tensor);
  bool settle();
  void addTensor(unsigned tensor, int sign);
  void addBytes(unsigned tensor, int sign);
  void holdOnce(int64_t bytes, std::vector<int64_t> &from, unsigned birth,
                unsigned death);
  void holdCopy(const EditedCopy &copy, unsigned first, int sign);
  void holdTensor(unsigned tensor, unsigned last, unsigned lastOfSum, int sign);
  /// Whether it counts only once all of the plan is known: it has copies that
  /// wait, or shares its memory.
  bool isLate(unsigned tensor) const {
    return tensors[tensor].hasWaiting || sharesMemory[tensor];
  }
  void setWorkspace(unsigned op) {
    workspaces[op] = problem.getSignatures(op)[edited.signatures[op]].workspace;
  }
  void addFlips(const std::vector<cost::Copy> &usual,
                const std::vector<cost::Copy> &wanted, bool isWait);
  void touch(unsigned stage);
  void setFlags(EditedStage &stage) const;

  //--- Tandem/Improve/EditorChanges.cpp
  void setSignature(unsigned op, unsigned signature);
  void setNext(unsigned stage, unsigned next);
  void setStage(unsigned op, unsigned stage);
  void moveOperators(unsigned begin, unsigned end, unsigned stage);
  void addCut(unsigned op);
  void removeCut(unsigned op);
  void flip(const cost::Copy &copy, bool isWait);

  //--- Tandem/Improve/EditorScore.cpp
  double getSeconds();
  void writeLines(unsigned first);
  double getSecondsWithQueue(Waiting &queue);
  void setLastOps(const Waiting &queue);
  bool isFolded(unsigned tensor) const;
  void holdLate(const Waiting &queue, int sign);
  int64_t getHeld(unsigned stage, int64_t &alive, int64_t &once,
                  int64_t &beside) const;
  void addBytes(Score &score, int64_t limit, bool byOperator) const;
  Score getScore(int64_t limit, bool byOperator);

  const Facts &facts;
  const cost::SearchProblem &problem;
  cost::Line line;
  bool hasLimit;
  unsigned firstUpdate;
  uint64_t work = 0;

  EditedPlan edited;
  CopyPlacer copies;

  //--- What follows from them.
  std::vector<EditedStage> stages;
  std::vector<EditedTensor> tensors;
  /// Bytes of all strands that are there from an operator on, from the begin of
  /// its stage, or from that of the stage behind, and up to an operator.
  std::vector<int64_t> births, copyBirths, lateBirths, deaths;
  /// Of one strand, with operators: made, copies that it is the first to take,
  /// terms that are summed up at the end of the stage, and up to there.
  std::vector<int64_t> shares, copyShares, termShares, goneShares;
  /// Whether a tensor is a view, or has some.
  std::vector<bool> sharesMemory;
  std::vector<unsigned> sharing;
  /// Of those that are late: until when they are there.
  std::vector<unsigned> lastOps, lastOfSums;
  /// Per operator that of its signature; and what one strand held beside it,
  /// of the stage that was looked at last.
  std::vector<int64_t> workspaces;
  mutable std::vector<int64_t> atOperators;
  int64_t argumentBytes = 0;
  /// Per stage the time line before it, of the plan that was kept last, and its
  /// seconds.
  std::vector<cost::LineState> lines;
  double keptSeconds = 0;
  unsigned numKept = 0;
  /// Stages that changed since then.
  unsigned firstChanged, lastChanged;

  //--- What undoes changes.
  std::vector<std::pair<unsigned, EditedStage>> oldStages;
  std::vector<std::pair<unsigned, EditedTensor>> oldTensors;
  std::vector<std::pair<unsigned, unsigned>> oldSignatures;
  struct OldStage {
    bool isNext;
    unsigned index, value;
  };
  std::vector<OldStage> oldPlaces;
  std::vector<std::pair<bool, EditedPlan::Flip>> oldFlips;

  //--- Tensors that have to be placed again.
  std::vector<unsigned> queued;
  std::vector<bool> isQueued;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_IMPROVE_EDITOR_H
