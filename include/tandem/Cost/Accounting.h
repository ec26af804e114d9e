//===- Accounting.h - rules that differ by accounting -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What an accounting lets plans decide, and how it adds seconds up. Searches
// and explanations ask these rules, not which accounting a problem has.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COST_ACCOUNTING_H
#define TANDEM_COST_ACCOUNTING_H

#include "tandem/Cost/SearchProblem.h"
#include <optional>

namespace tandem::cost {

/// A pass that each stage runs in two strands: what a strand sends lies beside
/// the computation of the stage before, and then beside that of its own stage.
struct StagePass {
  Pass pass = Pass::Forward;
  /// Seconds per second of a signature.
  double computation = 1;
  /// Whether what is sent hides beside computation, or adds to it.
  bool overlaps = true;
};

struct AccountingRules {
  /// A plan's time is the sum over its stages and these passes, and the first
  /// pass's computation of the last stage. Empty: the time line of Cost.h.
  std::vector<StagePass> passes;
  /// Whether arguments exist before the first stage. If not, stages hold them
  /// as all operators.
  bool hasArguments = true;
  /// Whether updates lie in stages of their own.
  bool separatesUpdates = true;
  /// Whether plans decide which copies are kept and which wait, and copies are
  /// made of copies. If not, a tensor has at most one copy, made of what its
  /// producer makes.
  bool decidesCopies = true;
  /// Whether axes have to split dimensions into equal parts.
  bool splitsEvenly = true;

  /// Whether stages run passes, rather than a time line of slots.
  bool hasStagePasses() const { return !passes.empty(); }
  /// Seconds of a step, in all passes of both strands, per second of a
  /// signature.
  double getComputation() const;
};

/// Of two strands that run a pass.
constexpr unsigned kStagePassStrands = 2;

const AccountingRules &getRules(Accounting accounting);

/// What a change of form sends in a pass.
struct PassChange {
  /// Nothing if it is free.
  std::optional<Change> collective;
  /// Of each strand.
  double seconds = 0;
};

/// A change of form of a tensor on the only axis, in each of the passes that
/// stages run (`AccountingRules::passes`). Nothing if there is none.
std::optional<std::vector<PassChange>>
getPassChanges(const SearchProblem &problem, unsigned tensor, Form from,
               Form to);

/// Whether the problem's accounting means something for it. One line in `error`
/// if not.
bool checkAccounting(const SearchProblem &problem, std::string &error);

} // namespace tandem::cost

#endif // TANDEM_COST_ACCOUNTING_H
