//===- Ties.cpp - choice among plans of equal cost ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Improve/Ties.h"
#include "Tandem/Improve/Editor.h"
#include "Tandem/Improve/TieFamilies.h"
#include "Tandem/Limits.h"
#include "tandem/Cost/Cost.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

namespace {

class TieSettler {
public:
  TieSettler(const SearchProblem &problem, const Plan &plan,
             const std::function<bool()> &proceeds);

  /// False if nothing holds less.
  bool run();
  Plan getPlan() const { return editor.getPlan(); }

private:
  int64_t getBytes(const TieFamily &family) const;

  /// By which equal plans are ordered.
  struct Held {
    int64_t numCollectives, peak, resident;
    auto operator<=>(const Held &) const = default;
  };
  Held getHeld();
  bool isBetter(bool mayBeEqual);
  bool mayGoOn() const {
    return editor.getWork() < limit && costWork < kCostWork && proceeds();
  }
  bool set(const TieFamily &family, const TieFamily::Choice &choice);
  bool setValue(unsigned group, unsigned value);
  bool isEqual();
  bool take(const PlanEditor::Mark &mark, bool isLegal, bool mayBeEqual);
  bool shrink(const TieFamily &family);
  bool exchange(const TieFamily &less, const TieFamily &more, bool isEarlier);
  bool shrinkAll();
  bool exchangeAll();

  const SearchProblem &problem;
  const std::function<bool()> &proceeds;
  Facts facts;
  ChangeTable table;
  PlanEditor editor;
  TieFamilies families;
  Held held;
  double most;
  uint64_t limit, costWork = 0;
};

} // namespace

TieSettler::TieSettler(const SearchProblem &problem, const Plan &plan,
                       const std::function<bool()> &proceeds)
    : problem(problem), proceeds(proceeds), facts(problem), table(problem),
      editor(facts, table), families(facts) {
  editor.set(plan);
  held = getHeld();
  most = editor.getScore().seconds * (1 + kEqualCost);
  limit = editor.getWork() + kTieWork;
}

//===----------------------------------------------------------------------===//
// Changes
//===----------------------------------------------------------------------===//

int64_t TieSettler::getBytes(const TieFamily &family) const {
  int64_t bytes = 0;
  for (unsigned resident : family.residents)
    bytes += families.getBytes(resident, editor.getSignatures()[resident]);
  return bytes;
}

bool TieSettler::setValue(unsigned group, unsigned value) {
  const std::vector<unsigned> &ops = facts.groups[group];
  return editor.getSignatures()[ops.front()] == value ||
         editor.setSignatures(ops, value);
}

bool TieSettler::set(const TieFamily &family, const TieFamily::Choice &choice) {
  for (size_t i = 0; i < family.groups.size(); ++i)
    if (!setValue(family.groups[i], choice.values[i]))
      return false;
  return true;
}

bool TieSettler::isEqual() {
  Score score = editor.getScore();
  return score.excess == 0 && score.seconds <= most;
}

/// Asks `cost` for the peak: the editor knows bytes only where there is a
/// limit.
TieSettler::Held TieSettler::getHeld() {
  costWork += problem.operators.size();
  std::string error;
  std::optional<CostReport> report =
      tandem::cost::cost(problem, editor.getPlan(), table, error);
  return {editor.countCollectives(),
          report ? report->peak : std::numeric_limits<int64_t>::max(),
          getResidentBytes(problem, editor.getSignatures())};
}

bool TieSettler::isBetter(bool mayBeEqual) {
  if (!isEqual() || editor.countCollectives() > held.numCollectives)
    return false;
  Held now = getHeld();
  if (now > held || (now == held && !mayBeEqual))
    return false;
  held = now;
  return true;
}

/// Keeps what was changed since `mark` if it costs no more and holds less.
bool TieSettler::take(const PlanEditor::Mark &mark, bool isLegal,
                      bool mayBeEqual) {
  if (!isLegal || !isBetter(mayBeEqual)) {
    editor.undo(mark);
    return false;
  }
  editor.keep();
  return true;
}

/// Other forms for one family; operators next to it may follow.
bool TieSettler::shrink(const TieFamily &family) {
  for (const TieFamily::Choice &choice : family.choices) {
    if (!mayGoOn())
      return false;
    PlanEditor::Mark mark = editor.mark();
    bool isLegal = set(family, choice);
    if (isLegal && !isEqual())
      for (unsigned group : family.neighbours)
        editor.settleSignatures(facts.groups[group]);
    if (take(mark, isLegal, false))
      return true;
  }
  return false;
}

/// Fewer bytes for one family, more for another; if all else is equal, the
/// first one has to be the earlier one.
bool TieSettler::exchange(const TieFamily &less, const TieFamily &more,
                          bool isEarlier) {
  int64_t lessBefore = getBytes(less), moreBefore = getBytes(more);
  for (const TieFamily::Choice &a : less.choices)
    for (const TieFamily::Choice &b : more.choices) {
      int64_t gain = lessBefore - a.bytes - (b.bytes - moreBefore);
      if (a.bytes >= lessBefore || b.bytes <= moreBefore || gain < 0)
        continue;
      if (!mayGoOn())
        return false;
      PlanEditor::Mark mark = editor.mark();
      bool isLegal = set(less, a) && set(more, b);
      if (take(mark, isLegal, isEarlier && gain == 0))
        return true;
    }
  return false;
}

bool TieSettler::shrinkAll() {
  bool isBetter = false;
  for (const TieFamily &family : families.list)
    isBetter |= shrink(family);
  return isBetter;
}

bool TieSettler::exchangeAll() {
  for (size_t i = 0; i < families.list.size() && mayGoOn(); ++i)
    for (size_t j = 0; j < families.list.size(); ++j)
      if (i != j && exchange(families.list[i], families.list[j], i < j))
        return true;
  return false;
}

bool TieSettler::run() {
  bool isBetter = false;
  while (shrinkAll() || exchangeAll())
    isBetter = true;
  return isBetter;
}

//===----------------------------------------------------------------------===//
// For callers
//===----------------------------------------------------------------------===//

int64_t
tandem::search::getResidentBytes(const SearchProblem &problem,
                                 const std::vector<unsigned> &signatures) {
  int64_t bytes = 0;
  for (unsigned op = 0; op < problem.operators.size(); ++op)
    if (problem.operators[op].kind == Operator::Kind::Resident)
      bytes += problem.getBytes(
          problem.operators[op].results.front(),
          problem.getSignatures(op)[signatures[op]].results.front());
  return bytes;
}

void tandem::search::settleTies(const SearchProblem &problem, Plan &plan,
                                const std::function<bool()> &proceeds) {
  TieSettler settler(problem, plan, proceeds);
  if (!settler.run())
    return;
  Plan settled = settler.getPlan();
  std::string error;
  // The editor adds up in another order than `cost`, which decides.
  if (!derive(problem, settled, error) ||
      settled.cost > plan.cost * (1 + kEqualCost))
    return;
  settled.isOptimal = plan.isOptimal;
  settled.lowerBound =
      plan.isOptimal ? settled.cost : std::min(plan.lowerBound, settled.cost);
  plan = std::move(settled);
}
