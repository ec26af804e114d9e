//===- Label.h - a partial plan of the exact search -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A label is what the rest of a plan can see of its beginning (operators 0 ...
// i - 1): discrete facts, which make its key, and numbers, of which less is
// never worse. Some facts depend on what comes later (whether a gradient is
// summed, which copies of it wait); a label guesses them where the tensor is
// made, and dies if a guess turns out to be wrong.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_LABELS_LABEL_H
#define TANDEM_LIB_SEARCH_TANDEM_LABELS_LABEL_H

#include "Tandem/Labels/Walk.h"
#include "Tandem/Problem/Facts.h"
#include "Tandem/Stages/Line.h"
#include "tandem/Cost/Plan.h"
#include <memory>

namespace tandem::search {

struct LiveCopy {
  cost::Layout layout;
  cost::Pass madeIn;
  /// Made in a stage that is closed.
  bool existed = false;
  bool isInPlace = false;
  bool waits = false;
};

/// A copy that will wait, as guessed where its gradient was made.
struct WaitGuess {
  cost::Layout layout;
  bool isMade = false;
};

/// A tensor that will be used again.
struct LiveTensor {
  unsigned tensor;
  /// Uses that are decided.
  unsigned numUsed = 0;
  cost::Layout produced;
  bool existed = false, isInPlace = false;
  /// Guesses: the tensor is summed over time; its terms are wanted as well.
  bool isSummed = false, keepsTerms = false;
  /// What of that has been seen.
  bool sumSeen = false, termsSeen = false;
  /// If some of its copies wait: the number of uses up to the last one by an
  /// update that takes none of these, which frees the tensor; 0 if there is
  /// none. As guessed, and as seen.
  unsigned lastOther = 0, lastOtherSeen = 0;
  std::vector<WaitGuess> waits;
  /// What the queue no longer needs, but operators of the backward pass do.
  int64_t bytesToFree = 0;
  /// In the order in which they were made.
  std::vector<LiveCopy> copies;
  /// Layouts that uses other than tied ones have wanted; for tensors that have
  /// both.
  std::vector<cost::Layout> wanted;
};

/// A waiting copy, for the account of memory.
struct LabelWaiter {
  unsigned tensor;
  cost::Layout layout;
  double seconds;
  int64_t bytes;
  /// Bytes of the gradient that are free when this copy is made.
  int64_t freedBytes;
  bool isStarted = false;
  /// How much of the queue lies before its stage is closed: 0 in the queue, 1
  /// arriving, 2 open.
  uint8_t place = 2;
};

/// What was decided for one operator; the way back to the begin of the plan.
struct Decision {
  std::shared_ptr<const Decision> previous;
  unsigned op, signature;
  bool cuts;
  std::vector<cost::Copy> kept, waiting;
};

struct Label {
  //--- Discrete.
  std::vector<LiveTensor> tensors; // by index
  /// Signatures of groups of which some operator is still to come.
  std::vector<std::pair<unsigned, unsigned>> groups;
  bool isUpdateStage = false, hasUpdated = false;
  std::vector<LabelWaiter> waiters;

  //--- Numbers.
  LineState line;
  StageWork work;
  double leaving = 0;
  int64_t resident = 0, closedPeak = 0, stageBytes = 0, nextBytes = 0,
          workspace = 0;

  /// What plans that begin so cost at least, s.
  double least = 0;

  std::shared_ptr<const Decision> decision;

  int64_t getPeak() const {
    return resident + std::max(closedPeak, stageBytes + workspace);
  }
};

/// Extends labels by one operator.
class LabelExpander {
public:
  LabelExpander(const Facts &facts, cost::ChangeTable &table, const Line &line,
                const LabelWalk &walk);

  /// All labels that decide operator `op` behind `label`.
  std::vector<Label> expand(const Label &label, unsigned op);
  /// The finished plan's seconds and peak.
  void finish(Label &label);

private:
  struct Draft {
    Label label;
    std::vector<cost::Copy> kept, waiting;
  };

  int64_t getLeastBytes(unsigned op) const;
  void closeStage(Label &label, bool isEnd);
  bool choosesCut(unsigned op) const;
  std::vector<unsigned> getSignatures(const Label &label, unsigned op) const;
  void decide(const Label &label, unsigned op, unsigned signature, bool cuts,
              std::vector<Label> &results);
  void addWork(Label &label, unsigned op, const cost::Signature &signature);
  bool use(Draft &draft, unsigned op, unsigned operand,
           const cost::Layout &layout, std::vector<Draft> &results);
  bool makeCopy(Draft &draft, LiveTensor &live, unsigned op,
                const cost::Layout &base, const cost::Layout &layout);
  void endPass(Draft draft, unsigned index, cost::Pass pass, bool isLast,
               std::vector<Draft> &results);
  bool isUseful(const LiveTensor &live, const LiveCopy &copy) const;
  bool isConsistent(const LiveTensor &live) const;
  void release(Label &label, const LiveTensor &live) const;
  void produce(const Draft &draft, unsigned op, unsigned result,
               const cost::Layout &layout, std::vector<Draft> &results);
  void guessWaits(const Draft &draft, const LiveTensor &live,
                  std::vector<Draft> &results);
  bool mayBeLastOther(const TensorFacts &info, unsigned number) const;
  void addWaiting(Draft draft, LiveTensor live, std::vector<Draft> &results);
  void place(Draft &draft, LiveTensor live) const;
  bool isInPlace(const Label &label, unsigned tensor,
                 const cost::Layout &layout) const;
  bool isCopyInPlace(const LiveTensor &live, const cost::Layout &layout) const;
  int64_t getSourceBytes(const LiveTensor &live) const;
  /// Layouts in which updates may want the tensor.
  std::vector<cost::Layout> getUpdateLayouts(unsigned tensor) const;

  const Facts &facts;
  const cost::SearchProblem &problem;
  cost::ChangeTable &table;
  const Line &line;
  const LabelWalk &walk;
  bool hasLimit;
  /// Per place in the walk what arguments from there on hold at least.
  std::vector<int64_t> leastBytes;
};

/// Sorts labels of one position into Pareto fronts.
class LabelOrder {
public:
  explicit LabelOrder(const Facts &facts);

  std::string getKey(const Label &label) const;
  /// Whether whatever follows costs `a` no more than `b`; keys are equal.
  bool isNoWorse(const Label &a, const Label &b) const;

private:
  void appendTensor(std::string &key, const LiveTensor &live) const;
  bool isWantedOtherwise(const LiveTensor &live,
                         const cost::Layout &layout) const;
  bool isQueueEqual(const Label &a, const Label &b) const;

  const Facts &facts;
  bool hasLimit;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_LABELS_LABEL_H
