//===- Stages.h - stages for given signatures -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With signatures, kept and waiting copies decided, what is left to choose are
// the cuts. A dynamic program over the order finds the best ones: partial
// divisions that end behind an operator are compared by what the rest can see
// of them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_STAGES_STAGES_H
#define TANDEM_LIB_SEARCH_TANDEM_STAGES_STAGES_H

#include "Tandem/Problem/Forms.h"
#include "tandem/Cost/Line.h"

namespace tandem::search {

struct StageLimits {
  /// Divisions that no other one dominates are kept up to this number per
  /// operator; beyond it the best ones.
  unsigned maxFront;
  /// Bytes of one device that a stage may hold.
  int64_t memory = cost::kNoLimit;
};

class StagePlanner {
public:
  explicit StagePlanner(const Facts &facts);

  /// Sets the plan's stages to the cheapest ones for what `forms` has analysed.
  /// Nothing if no division is legal within the memory limit.
  std::optional<double> plan(const FixedForms &forms, cost::Plan &plan,
                             const StageLimits &limits);
  /// Of the last plan: whether no more divisions were kept than there may be,
  /// so that none is cheaper; and pairs of divisions that were compared.
  bool isComplete = true;
  uint64_t numPairs = 0;

private:
  /// Of the open stage: one strand's bytes beside some operator, workspaces
  /// included, of copies made so far and of terms to be summed up; those of all
  /// strands; and both beside some operator.
  struct StageBytes {
    int64_t top = 0, copies = 0, terms = 0, once = 0, topOfAll = 0;
  };
  /// Decided at the first operator that may run ahead.
  enum class Ahead : uint8_t { Open, Yes, No };
  /// A division of the operators so far; the last stage is open.
  struct Front {
    cost::LineState line;
    cost::StageWork work;
    double leaving = 0;
    unsigned begin = 0;
    StageBytes held{};
    int node = -1;
    /// Whether the stage runs ahead, how many of the operators to come may, and
    /// whether the stage before did.
    Ahead ahead = Ahead::Open;
    unsigned numAhead = 0;
    bool wasAhead = false;
  };
  /// Where a stage begins, the ones before it, and whether the last of these
  /// runs ahead.
  struct Node {
    int previous;
    unsigned begin;
    bool wasAhead;
  };

  /// A division's place in the order in which they are compared.
  struct Rank {
    double rank;
    unsigned begin, index;
  };

  void prepare(const FixedForms &forms, const cost::Plan &plan);
  void advance(unsigned op);
  void open(unsigned op);
  bool extend(Front &front, unsigned op) const;
  void hold(Front &front, unsigned op, bool isAhead) const;
  int64_t getAtBegin(const Front &front) const;
  int64_t getMost(const Front &front) const;
  bool fits(const Front &front, int64_t besides) const;
  bool canEnd(const Front &front, unsigned end) const;
  bool mayBeAhead(const Front &front, unsigned op) const {
    return facts.hasAgain && front.begin > 0 &&
           forms->aheadFrom[op] <= front.begin;
  }
  void countAhead();
  void branchAhead(unsigned op);
  bool aheadAgrees(const Front &a, const Front &b) const;
  bool holdsNoMore(const Front &a, const Front &b) const;
  void prune();
  double getRank(const Front &front) const;
  double getMostLost(const Front &a, const Front &b) const;
  bool isNoWorse(const Front &a, const Front &b) const;
  bool sourcesAgree(unsigned a, unsigned b) const;
  void setStages(const Front &front, cost::Plan &plan) const;
  std::optional<double> finish(cost::Plan &plan);

  const Facts &facts;
  const cost::SearchProblem &problem;
  cost::Line line;
  /// What a second that waits counts in a rank.
  double waitPrice;
  //--- Of the plan at hand.
  const FixedForms *forms = nullptr;
  const cost::Plan *current = nullptr;
  StageLimits limits{};
  std::vector<Front> fronts, opened, scratch;
  std::vector<Rank> order, keptFronts;
  std::vector<Node> nodes;
  /// Per operator the last one that wants a copy of what it makes, and that
  /// has a choice of sources; the operator itself if there is none.
  std::vector<unsigned> lastWanted, lastChoice;
  /// Operators whose results will be sources, sorted.
  std::vector<unsigned> pending;
  /// By the begin of a stage, how many operators it can run ahead.
  std::vector<unsigned> numAhead;
  unsigned position = 0;
  unsigned firstWork = 0, firstUpdate = 0;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_STAGES_STAGES_H
