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
// Bytes equal those of `cost`, seconds do up to rounding; whoever keeps a plan
// asks `cost`.
//
// Changes are tentative until `keep`; `undo` takes back all that were made
// behind a mark.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_IMPROVE_EDITOR_H
#define TANDEM_LIB_SEARCH_TANDEM_IMPROVE_EDITOR_H

#include "Tandem/Improve/CopyPlacer.h"
#include "Tandem/Improve/HeldLine.h"
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
  /// Operators, and what they get.
  using Signatures = std::vector<std::pair<unsigned, unsigned>>;
  bool setSignatures(const Signatures &changes);
  /// What gives all operators these.
  Signatures listChanges(const std::vector<unsigned> &signatures) const;
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
    size_t numWorks, numTensors, numSignatures, numStages, numFlips, numSpans;
    unsigned firstChanged, lastChanged;
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
  /// Tensors recomputed and stages looked at so far; where there is a limit of
  /// memory, a score counts as all stages.
  uint64_t getWork() const { return work; }

private:
  /// A stage is named by its first operator.
  struct EditedStage {
    cost::StageWork work;
    double leaving = 0;
    int numJoins = 0, numOverTime = 0, numWaiting = 0;
  };
  /// A copy that waits: of a tensor, which one; s.
  struct WaitingCopy {
    unsigned tensor, place;
    double seconds;
    bool operator==(const WaitingCopy &) const = default;
  };
  /// What waits, from some stage on, for the account of memory: it is held by
  /// stages. Where there is no limit, no copies are listed. Slots are summed up
  /// in whole ticks, so that the sum does not depend on where it begins.
  struct Waiting : cost::WaitQueue {
    std::vector<WaitingCopy> copies;
    double ticksPerSecond = 1;
    int64_t ticks = 0;

    void addSlot(const cost::Slot &slot) { addSeconds(slot.seconds); }
    void expose(const cost::LineState &line) {
      addSeconds(line.waiting);
      WaitQueue::expose(line);
    }

  private:
    /// A change may cost any number of times what the kept plan costs.
    void addSeconds(double seconds) {
      constexpr double kMost = 0x1p61;
      ticks +=
          static_cast<int64_t>(std::min(seconds * ticksPerSecond + 0.5, kMost));
      ticks = std::min(ticks, static_cast<int64_t>(kMost));
    }
  };
  /// Of the plan that was kept last, before a stage: the time line, and how
  /// many copies were gone, waited, and were to wait behind the next slot. Of
  /// the first one that waited what was left, s.
  struct Before {
    cost::LineState line;
    int64_t ticks = 0;
    size_t begin = 0, end = 0, size = 0;
    double left = 0;
  };
  /// The stage in which a copy's first piece is taken, if one is, and the last
  /// operator of that of its last one.
  struct Span {
    int first = -1;
    unsigned lastOp = 0;
    bool operator==(const Span &) const = default;
  };
  /// What the tensors in one memory hold that are late.
  struct LateBytes {
    std::vector<HeldEntry> held;
    bool isOpen = false;
  };

  //--- Tandem/Improve/Editor.cpp
  void rebuild();
  void logStage(unsigned stage);
  void addOperator(unsigned op, int sign);
  void queueTensors(unsigned op);
  void queueTensor(unsigned tensor);
  bool settle();
  void addTensor(unsigned tensor, int sign);
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
  void undoTensors(size_t numLeft);
  void undoFlips(size_t numLeft);

  //--- Tandem/Improve/EditorScore.cpp
  int64_t getTicks();
  void setTicks();
  double writeLines(unsigned first);
  unsigned close(cost::LineState &state, Waiting &queue, unsigned stage);
  void finish(cost::LineState &state, Waiting &queue);
  Waiting resume(unsigned stage) const;
  bool isAsKept(const cost::LineState &state, const Waiting &queue,
                unsigned stage) const;
  bool takeSpans(const Waiting &queue, unsigned stage);
  Score getScore(int64_t limit, bool byOperator);

  //--- Tandem/Improve/EditorBytes.cpp
  void setOperator(unsigned op);
  void addBytes(unsigned tensor, int sign);
  void listCopy(const EditedCopy &copy, unsigned first,
                std::vector<HeldEntry> &entries) const;
  void listTensor(unsigned tensor, unsigned last, unsigned lastOfSum,
                  std::vector<HeldEntry> &entries) const;
  void listLate(unsigned root, std::vector<HeldEntry> &entries) const;
  unsigned getLastOp(unsigned tensor) const;
  bool isFolded(unsigned tensor) const;
  /// Whether it counts only once all of the plan is known: it has copies that
  /// wait, or shares its memory.
  bool isLate(unsigned tensor) const {
    return tensors[tensor].hasWaiting || sharesMemory[tensor];
  }
  void dropLate(unsigned tensor);
  void holdLate();

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
  HeldLine held;
  /// Whether a tensor is a view, or has some; and of each tensor its views.
  std::vector<bool> sharesMemory;
  std::vector<std::vector<unsigned>> viewsOf;
  /// By root; and those that are not counted yet.
  std::vector<LateBytes> late;
  std::vector<unsigned> openLate;
  /// Of copies that wait, by tensor and copy.
  std::vector<std::vector<Span>> spans;
  std::vector<HeldEntry> scratch;

  //--- Of the plan that was kept last.
  /// By stage.
  std::vector<Before> before;
  Waiting kept;
  int64_t keptTicks = 0;
  double ticksPerSecond = 1;
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
  struct OldSpan {
    unsigned tensor, place;
    Span span;
  };
  std::vector<OldSpan> oldSpans;

  //--- Tensors that have to be placed again.
  std::vector<unsigned> queued;
  std::vector<bool> isQueued;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_IMPROVE_EDITOR_H
