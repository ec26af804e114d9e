//===- Plan.h - decisions of a plan -----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A plan is plain data. What is decided: a signature per operator, the cuts of
// the order into stages, which copies are kept for a later pass, which
// gradients' collectives wait and which stages make values again ahead. What
// follows from that, and is written so that a reader sees it and a verifier can
// compare: the changes of layout of each stage, the cost and the peak of
// memory.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COST_PLAN_H
#define TANDEM_COST_PLAN_H

#include "tandem/Cost/SearchProblem.h"
#include <algorithm>

namespace tandem::cost {

/// A copy of a tensor in a layout that its producer did not give it, made once
/// for all operators of a pass that want it.
struct Copy {
  unsigned tensor;
  Layout layout;
  Pass pass;
  bool operator==(const Copy &) const = default;
  auto operator<=>(const Copy &) const = default;
};

/// A copy being made in a stage, from a layout that existed before the stage.
/// One that waits is made beside stages before `stage`, which holds its first
/// update.
struct CopyChange {
  unsigned stage;
  Copy copy;
  Layout from;
  bool waits = false;
  bool operator==(const CopyChange &) const = default;
};

struct Plan {
  /// `getStructureHash` of the problem that this plan is for.
  std::string structureHash;
  Accounting accounting = Accounting::Tandem;

  //--- Decided.
  /// Index into the operator's signatures.
  std::vector<unsigned> signatures;
  /// One past the last operator of each stage; the last is the number of
  /// operators.
  std::vector<unsigned> stageEnds;
  /// Copies that stay until the last use of their tensor in the next pass that
  /// uses it, instead of being made again. Sorted.
  std::vector<Copy> kept;
  /// Copies of summed gradients, for the update, whose collectives wait.
  /// Sorted.
  std::vector<Copy> waiting;

  /// First operators of the stages that compute what they make again of what
  /// was there beside their collectives (Cost.h, *Ahead*). Sorted.
  std::vector<unsigned> ahead;

  /// Whether a schedule with stages of its own follows, as that of presets,
  /// which gathers and sends a piece of computation apart (Cost.h, *Memory*).
  bool gathersAhead = false;

  //--- Derived: `derive` (Cost.h) fills them in.
  std::vector<CopyChange> changes;
  double cost = 0;  // s per step
  int64_t peak = 0; // B

  //--- Claimed by the algorithm. `lowerBound` is one for every legal plan of
  /// the problem; the plan is optimal if it equals the cost.
  double lowerBound = 0; // s
  bool isOptimal = false;

  bool operator==(const Plan &) const = default;

  /// Whether the stage that begins with the operator runs ahead.
  bool isAhead(unsigned begin) const {
    return std::binary_search(ahead.begin(), ahead.end(), begin);
  }
  /// Removes the cut, and what it says of the stage behind it.
  void removeCut(std::vector<unsigned>::iterator cut) {
    std::erase(ahead, *cut);
    stageEnds.erase(cut);
  }
};

/// By which share a plan may cost more than the best one: seconds / bound - 1;
/// infinity where nothing was proven.
inline double getGap(double seconds, double bound) {
  return bound > 0 ? std::max(0.0, seconds / bound - 1)
                   : std::numeric_limits<double>::infinity();
}

/// Whether the bound proves the cost the least: sums of equal numbers in
/// another order differ by less.
inline bool isProven(double seconds, double bound) {
  return seconds - bound <= 1e-9 * seconds;
}

/// `1.101680 s`: six decimals, below a millisecond six digits.
std::string printSeconds(double seconds);

/// The plan as text; equal plans give equal text, to the byte.
std::string print(const SearchProblem &problem, const Plan &plan);

/// Parses a plan for `problem`: signatures stand in it as text and must be
/// among the operator's, and a hash, if it has one, is the problem's. On
/// failure returns nothing and sets `error` to one line `NAME:LINE: what was
/// found, what was expected`. Does not check legality beyond that: see
/// `verifyPlan`.
std::optional<Plan> parsePlan(const SearchProblem &problem,
                              std::string_view text, std::string_view name,
                              std::string &error);

} // namespace tandem::cost

#endif // TANDEM_COST_PLAN_H
