//===- TandemTies.cpp - one of many plans that cost the same --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TandemTies.h"
#include "TandemEditor.h"
#include "TandemLimits.h"
#include "tandem/Cost/Cost.h"
#include <algorithm>
#include <map>
#include <set>

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
  /// Signatures of a family's groups, with which its residents hold `bytes`.
  struct Choice {
    int64_t bytes;
    std::vector<unsigned> values;
    auto operator<=>(const Choice &) const = default;
  };
  /// What moves together: a parameter, its states and their update; or one of
  /// these that are resident alone.
  struct Family {
    /// Operators that take signatures of one index, by their first.
    std::vector<unsigned> groups;
    /// Those of them that are resident.
    std::vector<unsigned> residents;
    /// Fewest bytes first.
    std::vector<Choice> choices;
    /// Groups of operators that make or read its tensors.
    std::vector<unsigned> neighbours;
  };

  void addFamilies();
  void addUpdate(unsigned op);
  void addResident(unsigned op);
  void addFamily(Family family);
  void addNeighbours(Family &family);
  std::vector<int64_t> getKind(const Family &family, unsigned op) const;
  std::optional<Choice> getChoice(const Family &family, unsigned op,
                                  const Signature &signature) const;
  int64_t getBytes(unsigned resident, unsigned value) const;
  int64_t getBytes(const Family &family) const;
  bool isPartOfFamily(unsigned op) const {
    return problem.operators[op].kind == Operator::Kind::Resident ||
           problem.operators[op].pass == Pass::Update;
  }

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
  bool set(const Family &family, const Choice &choice);
  bool setValue(unsigned group, unsigned value);
  void settle(unsigned group);
  bool isEqual();
  bool take(const PlanEditor::Mark &mark, bool isLegal, bool mayBeEqual);
  bool shrink(const Family &family);
  bool exchange(const Family &less, const Family &more, bool isEarlier);
  bool shrinkAll();
  bool exchangeAll();

  const SearchProblem &problem;
  const std::function<bool()> &proceeds;
  Facts facts;
  ChangeTable table;
  PlanEditor editor;
  std::vector<std::vector<unsigned>> operatorsOf;
  std::vector<Family> families;
  /// Updates that have one.
  std::set<unsigned> withFamily;
  /// Of updates, by kind: layers repeat.
  std::map<std::vector<int64_t>, std::vector<Choice>> choicesOf;
  Held held;
  double most;
  uint64_t limit, costWork = 0;
};

} // namespace

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

TieSettler::TieSettler(const SearchProblem &problem, const Plan &plan,
                       const std::function<bool()> &proceeds)
    : problem(problem), proceeds(proceeds), facts(problem), table(problem),
      editor(facts, table), operatorsOf(problem.operators.size()) {
  for (unsigned op = 0; op < problem.operators.size(); ++op)
    operatorsOf[facts.groupOf[op]].push_back(op);
  addFamilies();
  editor.set(plan);
  held = getHeld();
  most = editor.getScore().seconds * (1 + kEqualCost);
  limit = editor.getWork() + kTieWork;
}

/// In the order of the parameters.
void TieSettler::addFamilies() {
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    if (problem.operators[op].kind != Operator::Kind::Resident)
      continue;
    unsigned tensor = problem.operators[op].results.front();
    for (const TensorUse &use : facts.tensors[tensor].uses)
      if (problem.operators[use.op].pass == Pass::Update &&
          problem.operators[use.op].kind == Operator::Kind::Compute &&
          withFamily.insert(use.op).second)
        addUpdate(use.op);
    addResident(op);
  }
}

int64_t TieSettler::getBytes(unsigned resident, unsigned value) const {
  return problem.getBytes(problem.operators[resident].results.front(),
                          problem.getSignatures(resident)[value].results[0]);
}

int64_t TieSettler::getBytes(const Family &family) const {
  int64_t bytes = 0;
  for (unsigned resident : family.residents)
    bytes += getBytes(resident, editor.getSignatures()[resident]);
  return bytes;
}

/// The family in the forms that one signature of its update wants; nothing if
/// they cannot be stored so.
std::optional<TieSettler::Choice>
TieSettler::getChoice(const Family &family, unsigned op,
                      const Signature &signature) const {
  const std::vector<unsigned> &operands = problem.operators[op].operands;
  Choice choice{0, {}};
  for (unsigned resident : family.residents) {
    unsigned tensor = problem.operators[resident].results.front();
    size_t operand =
        std::find(operands.begin(), operands.end(), tensor) - operands.begin();
    const SignatureSet &set = problem.getSignatures(resident);
    auto place = std::find_if(set.begin(), set.end(), [&](const Signature &s) {
      return s.results[0] == signature.operands[operand];
    });
    if (place == set.end())
      return std::nullopt;
    choice.values.push_back(place - set.begin());
    choice.bytes += getBytes(resident, choice.values.back());
  }
  return choice;
}

/// All that the choices of a family follow from.
std::vector<int64_t> TieSettler::getKind(const Family &family,
                                         unsigned op) const {
  const Operator &update = problem.operators[op];
  std::vector<int64_t> kind{update.signatureSet};
  for (unsigned resident : family.residents) {
    unsigned number = problem.operators[resident].results.front();
    const Tensor &tensor = problem.tensors[number];
    kind.push_back(problem.operators[resident].signatureSet);
    kind.push_back(
        std::find(update.operands.begin(), update.operands.end(), number) -
        update.operands.begin());
    kind.push_back(tensor.elementBytes);
    kind.push_back(static_cast<int64_t>(tensor.shape.size()));
    kind.insert(kind.end(), tensor.shape.begin(), tensor.shape.end());
  }
  return kind;
}

void TieSettler::addUpdate(unsigned op) {
  Family family;
  for (unsigned tensor : problem.operators[op].operands) {
    unsigned producer = facts.tensors[tensor].producer;
    if (problem.operators[producer].kind == Operator::Kind::Resident) {
      family.residents.push_back(producer);
      family.groups.push_back(facts.groupOf[producer]);
    }
  }
  family.groups.push_back(facts.groupOf[op]);
  auto [known, isNew] = choicesOf.try_emplace(getKind(family, op));
  const SignatureSet &set = problem.getSignatures(op);
  for (unsigned value = 0; isNew && value < set.size(); ++value)
    if (std::optional<Choice> choice = getChoice(family, op, set[value])) {
      choice->values.push_back(value);
      known->second.push_back(std::move(*choice));
    }
  family.choices = known->second;
  addFamily(std::move(family));
}

void TieSettler::addResident(unsigned op) {
  Family family;
  family.residents = {op};
  family.groups = {facts.groupOf[op]};
  for (unsigned value = 0; value < problem.getSignatures(op).size(); ++value)
    family.choices.push_back({getBytes(op, value), {value}});
  addFamily(std::move(family));
}

void TieSettler::addFamily(Family family) {
  if (family.choices.size() < 2)
    return;
  std::sort(family.choices.begin(), family.choices.end());
  addNeighbours(family);
  families.push_back(std::move(family));
}

void TieSettler::addNeighbours(Family &family) {
  std::vector<unsigned> &next = family.neighbours;
  auto add = [&](unsigned op) {
    if (!isPartOfFamily(op) && problem.getSignatures(op).size() > 1)
      next.push_back(facts.groupOf[op]);
  };
  for (unsigned group : family.groups)
    for (unsigned op : operatorsOf[group]) {
      for (unsigned tensor : problem.operators[op].operands)
        add(facts.tensors[tensor].producer);
      for (unsigned tensor : problem.operators[op].results)
        for (const TensorUse &use : facts.tensors[tensor].uses)
          add(use.op);
    }
  std::sort(next.begin(), next.end());
  next.erase(std::unique(next.begin(), next.end()), next.end());
}

//===----------------------------------------------------------------------===//
// Changes
//===----------------------------------------------------------------------===//

bool TieSettler::setValue(unsigned group, unsigned value) {
  return editor.getSignatures()[group] == value ||
         editor.setSignatures(operatorsOf[group], value);
}

bool TieSettler::set(const Family &family, const Choice &choice) {
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

/// Gives the operators the best signature, with all others as they are.
void TieSettler::settle(unsigned group) {
  Score least = editor.getScore();
  unsigned before = editor.getSignatures()[group], value = before;
  unsigned numValues = problem.getSignatures(group).size();
  for (unsigned i = 0; i < numValues; ++i) {
    PlanEditor::Mark mark = editor.mark();
    if (i != before && editor.setSignatures(operatorsOf[group], i))
      if (Score score = editor.getScore(); score.isBetterThan(least)) {
        least = score;
        value = i;
      }
    editor.undo(mark);
  }
  if (value != before)
    editor.setSignatures(operatorsOf[group], value);
}

/// Other forms for one family; operators next to it may follow.
bool TieSettler::shrink(const Family &family) {
  for (const Choice &choice : family.choices) {
    if (!mayGoOn())
      return false;
    PlanEditor::Mark mark = editor.mark();
    bool isLegal = set(family, choice);
    if (isLegal && !isEqual())
      for (unsigned group : family.neighbours)
        settle(group);
    if (take(mark, isLegal, false))
      return true;
  }
  return false;
}

/// Fewer bytes for one family, more for another; if all else is equal, the
/// first one has to be the earlier one.
bool TieSettler::exchange(const Family &less, const Family &more,
                          bool isEarlier) {
  int64_t lessBefore = getBytes(less), moreBefore = getBytes(more);
  for (const Choice &a : less.choices)
    for (const Choice &b : more.choices) {
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
  for (const Family &family : families)
    isBetter |= shrink(family);
  return isBetter;
}

bool TieSettler::exchangeAll() {
  for (size_t i = 0; i < families.size() && mayGoOn(); ++i)
    for (size_t j = 0; j < families.size(); ++j)
      if (i != j && exchange(families[i], families[j], i < j))
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
