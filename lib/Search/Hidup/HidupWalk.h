//===- HidupWalk.h - HiDup's dynamic programming ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// HiDup (Zhang et al., SoCC 2022), section 4.2 and figure 4. The paper appends
// whole stages to strategies and keeps, per cut and forms of its tensors, those
// that no other dominates. Here the order is walked operator by operator, and
// the stage that is still open is part of the label: every way to compose a
// stage is then shared with all the others that lead to the same state, and
// there is no limit on a stage's size. docs/rationale/hidup.md says what each
// reduction rests on.
//
// Times are integers (fractions of a second, see `Units`), so that equal sums
// are equal in whatever order they are formed.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_HIDUPWALK_H
#define TANDEM_LIB_SEARCH_HIDUPWALK_H

#include "HidupLabels.h"
#include "HidupStates.h"
#include "tandem/Search/SearchEnd.h"
#include <limits>

namespace tandem::search::hidup {

/// What led to a label: a chain of decisions, newest first.
struct Node {
  uint32_t before;
  Decision decision;
};
/// In place of a signature: a stage begins at this operator.
constexpr unsigned kCut = ~0u;

/// A label that is not yet known to stay.
struct Candidate {
  Label label;
  uint32_t state;
  /// Its decisions, in the list of the step.
  uint32_t firstDecision, numDecisions;
};

/// The labels in front of an operator, by state, none dominated by another.
struct Front {
  StateTable states;
  /// State i has the labels begins[i] ... begins[i + 1] - 1.
  std::vector<uint32_t> begins;
  std::vector<Label> labels;

  std::span<const Label> getLabels(unsigned state) const {
    return {labels.data() + begins[state], begins[state + 1] - begins[state]};
  }
};

/// How thorough a walk is.
struct Effort {
  /// Labels in front of one operator: above the first number the worst ones are
  /// dropped, and the second are kept.
  size_t maxLabels, keptLabels;
  /// Labels of one state: the number of comparisons is its square.
  size_t maxLabelsOfState;
  /// Labels made in all; beyond it the walk gives up.
  uint64_t maxVisited;
};
/// The problems of the paper have some hundred labels per operator. A large
/// graph is first walked with some thousand.
constexpr Effort kQuick = {1 << 12, 1 << 11, 32, ~uint64_t(0)};
/// Some hundred MiB.
constexpr Effort kThorough = {1 << 20, 1 << 18, 1 << 11, 1 << 22};
/// Kept after an interruption, to find some plan quickly, at first.
constexpr size_t kHurriedLabels = 64;

constexpr Time kNever = std::numeric_limits<Time>::max();

class Walk {
public:
  /// Looks only for plans below `upper`; with a finite one there is a plan
  /// already, and an interrupted walk need not find another.
  Walk(const Model &model, SearchEnd &end, Effort effort, Time upper)
      : model(model), end(end), effort(effort), upper(upper) {}

  /// The decisions of the best plan; none if there is none, or if labels were
  /// dropped (`isExact`) and those left were dead ends.
  std::optional<cost::Plan> run();
  bool isExact() const { return dropped == kNever && !isHurried; }
  bool wasInterrupted() const { return isHurried; }
  /// A plan can only cost less than the one found if it costs at least this.
  Time getBound() const { return dropped; }
  /// Of the plan that was found.
  Time getValueFound() const {
    return getValue(model.accounting, open.labels.front());
  }
  /// Number of labels that were made.
  uint64_t getNumVisited() const { return numVisited; }
  /// The operator that no label got past.
  unsigned getLastOperator() const { return lastOperator; }

private:
  void start();
  bool walk();
  bool isInterrupted(unsigned op);
  void keepBest(unsigned op, size_t number);
  void collectHistory();
  void close(unsigned op);
  void expand(unsigned op, const Front &from);
  void step(unsigned op);
  void add(const Label &label, const Transition &transition, unsigned state);
  void select(Front &into, Time rest);
  void selectState(std::span<uint32_t> candidates, Time rest, Front &into);
  uint32_t record(const Candidate &candidate);
  cost::Plan trace(const Label &label) const;

  const Model &model;
  SearchEnd &end;
  Effort effort;
  Time upper;
  /// In front of the current operator: with the stage going on, and with a new
  /// one beginning.
  Front open, closed, next;
  std::vector<Candidate> candidates;
  std::vector<Decision> decisions;
  std::vector<uint32_t> sorted, starts;
  std::vector<Time> values;
  std::vector<Node> history;
  /// Size of the history at which it is worth looking for what is dead.
  size_t historyLimit = 1 << 20;
  bool isHurried = false;
  size_t numHurried = kHurriedLabels;
  /// Least value of a label that was dropped undominated.
  Time dropped = kNever;
  uint64_t numVisited = 0;
  unsigned lastOperator = 0;
};

} // namespace tandem::search::hidup

#endif // TANDEM_LIB_SEARCH_HIDUPWALK_H
