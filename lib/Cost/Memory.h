//===- Memory.h - bytes of a plan's operators -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a plan holds while each operator runs, given its copies and when the
// queue took those that wait. Rules: Cost.h, *Memory*.
//
// Pieces, of plans that gather ahead. Stages end where pieces do. Each change
// of a gradient on the way to its update is sent beside the piece behind the
// gradient's own. Computation knows of it when it waits for what is gathered
// next: the gradient is held until the end of the piece after that. An
// all-reduce writes over what nobody else reads. What may be sent as one
// (Transforms/Schedule/CombineWaiting.cpp) is copied at the end of its piece,
// and stands beside its copy there.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_COST_MEMORY_H
#define TANDEM_LIB_COST_MEMORY_H

#include "TimeLine.h"
#include "tandem/Cost/Holdings.h"

namespace tandem::cost {

class PlanMemory {
public:
  PlanMemory(const SearchProblem &problem, const Plan &plan,
             const Placement &placement,
             const std::vector<std::optional<WaitSpan>> &spans);

  /// Per stage the most that is held while one of its operators runs.
  std::vector<int64_t> getStageBytes() const;
  /// All that is held for some time, workspaces left out.
  std::vector<Holding> list() const;
  /// What is held in the stage when most is: the bytes that count there.
  std::vector<Holding> listAtPeak(unsigned stage) const;

private:
  /// Held while the operators from `first` to `last` run.
  struct Item {
    Holding::Kind kind;
    unsigned tensor;
    Layout layout;
    int64_t bytes;
    unsigned first, last;
    /// By all strands together, in whole stages where there are several.
    bool isOnce;
    /// Terms that the last strand sums up: still there at the stage's end.
    bool isTerms = false;
    /// There before the first operator of its stage: a copy, or made ahead.
    bool isEarly = false;
  };
  struct Span {
    unsigned first, last;
  };
  /// Of the plan, or a part of it that lies in one piece.
  struct Stage {
    unsigned begin, end, ofPlan;
    /// Whether some operator is over time.
    bool isOverTime = false;
    /// Of one strand at the begin and at the end.
    int64_t atBegin = 0, atEnd = 0;
  };

  void addStages();
  bool isGathered(const PlacedCopy &copy) const;
  void findPieces();
  bool waits(const PlacedCopy &copy) const;
  unsigned getBegin(unsigned stage) const;
  unsigned findPiece(unsigned op) const;
  Span getSpanOfPiece(const PlacedCopy &copy) const;
  void findWaits(const std::vector<std::optional<WaitSpan>> &spans);
  bool isOverwritten(unsigned copy) const;
  bool mayBeJoined(const PlacedCopy &copy) const;
  void addTensors();
  void addTensor(unsigned tensor, unsigned last, unsigned lastOfAll);
  void addCopies();
  void addJoined();
  void addItem(Item item);
  void sumUp();
  bool isFolded(unsigned tensor) const;
  bool isOverTime(const Layout &layout) const;
  int64_t getShare(const Item &item) const {
    return item.isOnce ? 0 : item.bytes / numStrands;
  }
  bool isAtBegin(const Item &item, const Stage &stage) const;
  bool isAtEnd(const Item &item, const Stage &stage) const;
  /// While the operator runs.
  int64_t getBytes(const Stage &stage, unsigned op) const;
  unsigned findPeak(const Stage &stage) const;

  const SearchProblem &problem;
  const Plan &plan;
  const Placement &placement;
  int64_t numStrands, resident = 0;
  std::vector<Item> items;
  std::vector<Stage> stages;
  std::vector<unsigned> stageOf; // per operator
  /// First operators of the pieces, of which updates are the last one; empty
  /// unless the plan gathers ahead.
  std::vector<unsigned> pieces;
  /// Per copy that waits, the operators beside which its source is held.
  std::vector<std::optional<Span>> sent;
  /// Per operator: of one strand, of all strands together, and workspaces.
  std::vector<int64_t> alive, once, workspaces;
};

} // namespace tandem::cost

#endif // TANDEM_LIB_COST_MEMORY_H
