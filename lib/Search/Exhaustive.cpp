//===- Exhaustive.cpp - exhaustive search ---------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Search/Exhaustive.h"
#include "tandem/Cost/Accounting.h"
#include "tandem/Search/SearchEnd.h"
#include <algorithm>
#include <set>

using namespace tandem::cost;
using namespace tandem::search;

namespace {

/// Where the order may be cut: before operator `op`.
struct Boundary {
  unsigned op;
  bool isForced;
};

/// Operators that take signatures of one index together.
using Group = std::vector<unsigned>;

class Enumerator {
public:
  Enumerator(const SearchProblem &problem, uint64_t limit,
             const PlanVisitor &visit, std::string &error)
      : problem(problem), rules(getRules(problem.accounting)), limit(limit),
        visit(visit), error(error), table(problem) {}

  bool run();
  uint64_t numVisited = 0;

private:
  void prepare();
  bool visitSignatures(size_t group);
  bool visitDivisions();
  bool visitCopies();
  bool visitSubsets(const std::vector<Copy> &kept,
                    const std::vector<Copy> &waiting);
  bool visitAhead(const CostReport &report);
  std::vector<Copy> getWaitable(const CostReport &report);
  bool isReachable(const Group &group);
  bool isLegalAnywhere();
  void setDivision(uint64_t bits);
  std::optional<CostReport> ask();

  const SearchProblem &problem;
  const AccountingRules &rules;
  uint64_t limit;
  const PlanVisitor &visit;
  std::string &error;
  ChangeTable table;
  std::vector<Group> groups;
  std::vector<unsigned> groupOf;
  /// Of each tensor: its operator, and which of its results it is.
  std::vector<std::pair<unsigned, unsigned>> producers;
  std::vector<Boundary> boundaries;
  Plan plan;
};

} // namespace

/// Whether there is one rank and one strand, so that stages change nothing.
static bool isUndivided(const SearchProblem &problem) {
  return !getRules(problem.accounting).hasStagePasses() &&
         std::all_of(problem.axes.begin(), problem.axes.end(),
                     [](const Axis &axis) { return axis.size == 1; });
}

static std::vector<Boundary> getBoundaries(const SearchProblem &problem) {
  const AccountingRules &rules = getRules(problem.accounting);
  bool mayCut = !isUndivided(problem);
  std::vector<Boundary> boundaries;
  // A stage of arguments alone is an empty step, which changes nothing.
  int previous = -1;
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    const Operator &info = problem.operators[op];
    if (rules.hasArguments && info.isArgument())
      continue;
    if (previous >= 0) {
      bool isForced = rules.separatesUpdates &&
                      (info.pass == Pass::Update) !=
                          (problem.operators[previous].pass == Pass::Update);
      if (isForced || mayCut)
        boundaries.push_back({op, isForced});
    }
    previous = op;
  }
  return boundaries;
}

static uint64_t multiply(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? ~uint64_t(0) : product;
}

uint64_t tandem::search::countPlans(const SearchProblem &problem) {
  uint64_t count = 1;
  for (const Group &group : problem.getTieGroups())
    count = multiply(count, problem.getSignatures(group.front()).size());
  for (const Boundary &boundary : getBoundaries(problem))
    if (!boundary.isForced)
      count = multiply(count, 2);
  return count;
}

/// What the plan at hand costs; counts it.
std::optional<CostReport> Enumerator::ask() {
  ++numVisited;
  std::string reason;
  return cost(problem, plan, table, reason);
}

/// Bit i cuts at the free boundary i.
void Enumerator::setDivision(uint64_t bits) {
  plan.stageEnds.clear();
  unsigned free = 0;
  for (const Boundary &boundary : boundaries)
    if (boundary.isForced || (bits >> free++ & 1))
      plan.stageEnds.push_back(boundary.op);
  plan.stageEnds.push_back(problem.operators.size());
}

/// Whether collectives lead from what the producers give to what the operators
/// of the group want; producers of a later group are not looked at.
bool Enumerator::isReachable(const Group &group) {
  if (rules.hasStagePasses())
    return true;
  for (unsigned op : group) {
    const std::vector<unsigned> &operands = problem.operators[op].operands;
    const Signature &signature = problem.getSignatures(op)[plan.signatures[op]];
    for (size_t i = 0; i < operands.size(); ++i) {
      auto [producer, result] = producers[operands[i]];
      if (groupOf[producer] > groupOf[op])
        continue;
      const Layout &produced =
          problem.getSignatures(producer)[plan.signatures[producer]]
              .results[result];
      if (!table.getCost(operands[i], produced, signature.operands[i])
               .isPossible)
        return false;
    }
  }
  return true;
}

/// Signatures that are not legal with one operator per stage, where every
/// change is possible that is possible at all, are not legal in larger stages.
bool Enumerator::isLegalAnywhere() {
  setDivision(~uint64_t(0));
  return ask().has_value();
}

/// Copies that may be there for a later pass that changes the layout of the
/// same tensor; also those that only pass through a pass between.
static std::vector<Copy> getKeepable(const CostReport &report) {
  std::set<Copy> keepable;
  for (const CopyChange &change : report.changes)
    for (const CopyChange &later : report.changes)
      if (later.copy.tensor == change.copy.tensor)
        for (Pass pass = change.copy.pass; pass < later.copy.pass;
             pass = static_cast<Pass>(static_cast<unsigned>(pass) + 1))
          keepable.insert({change.copy.tensor, change.copy.layout, pass});
  return {keepable.begin(), keepable.end()};
}

/// Copies for the updates that are legal when they wait: `cost` knows which.
std::vector<Copy> Enumerator::getWaitable(const CostReport &report) {
  std::vector<Copy> waitable;
  for (const CopyChange &change : report.changes) {
    if (change.copy.pass != Pass::Update)
      continue;
    plan.waiting = {change.copy};
    if (ask())
      waitable.push_back(change.copy);
    plan.waiting.clear();
  }
  return waitable;
}

template <typename T>
static std::vector<T> getSubset(const std::vector<T> &all, uint64_t bits) {
  std::vector<T> subset;
  for (size_t i = 0; i < all.size(); ++i)
    if (bits >> i & 1)
      subset.push_back(all[i]);
  std::sort(subset.begin(), subset.end());
  return subset;
}

/// The plan at hand, and with what it may run ahead.
bool Enumerator::visitAhead(const CostReport &report) {
  bool proceeds = visit(plan, report);
  std::vector<unsigned> stages = listAheadable(problem, plan, table);
  uint64_t numSubsets = uint64_t(1) << stages.size();
  for (uint64_t bits = 1; proceeds && bits < numSubsets && numVisited <= limit;
       ++bits) {
    plan.ahead = getSubset(stages, bits);
    if (std::optional<CostReport> ahead = ask())
      proceeds = visit(plan, *ahead);
  }
  plan.ahead.clear();
  return proceeds;
}

bool Enumerator::visitSubsets(const std::vector<Copy> &kept,
                              const std::vector<Copy> &waiting) {
  uint64_t numSubsets = uint64_t(1) << (kept.size() + waiting.size());
  // The empty one was visited before.
  for (uint64_t bits = 1; bits < numSubsets; ++bits) {
    plan.kept = getSubset(kept, bits);
    plan.waiting = getSubset(waiting, bits >> kept.size());
    std::optional<CostReport> report = ask();
    if (report && !visitAhead(*report))
      return false;
    if (numVisited > limit)
      break;
  }
  plan.kept.clear();
  plan.waiting.clear();
  return true;
}

/// One division into stages, with all decisions about copies.
bool Enumerator::visitCopies() {
  std::optional<CostReport> report = ask();
  if (!report)
    return true;
  if (!rules.decidesCopies)
    return visit(plan, *report);
  if (!visitAhead(*report))
    return false;
  std::vector<Copy> kept = getKeepable(*report), waiting = getWaitable(*report);
  return visitSubsets(kept, waiting);
}

bool Enumerator::visitDivisions() {
  if (!isLegalAnywhere())
    return true;
  unsigned numFree = std::count_if(
      boundaries.begin(), boundaries.end(),
      [](const Boundary &boundary) { return !boundary.isForced; });
  for (uint64_t bits = 0; bits < uint64_t(1) << numFree; ++bits) {
    setDivision(bits);
    if (!visitCopies())
      return false;
    if (numVisited > limit)
      return true;
  }
  return true;
}

/// False when the visitor has seen enough.
bool Enumerator::visitSignatures(size_t group) {
  if (group == groups.size())
    return visitDivisions();
  unsigned numChoices = problem.getSignatures(groups[group].front()).size();
  for (unsigned choice = 0; choice < numChoices; ++choice) {
    for (unsigned op : groups[group])
      plan.signatures[op] = choice;
    if (isReachable(groups[group]) && !visitSignatures(group + 1))
      return false;
    if (numVisited > limit)
      break;
  }
  return true;
}

void Enumerator::prepare() {
  groups = problem.getTieGroups();
  groupOf.resize(problem.operators.size());
  for (unsigned i = 0; i < groups.size(); ++i)
    for (unsigned op : groups[i])
      groupOf[op] = i;
  producers.resize(problem.tensors.size());
  for (unsigned op = 0; op < problem.operators.size(); ++op)
    for (unsigned i = 0; i < problem.operators[op].results.size(); ++i)
      producers[problem.operators[op].results[i]] = {op, i};
  boundaries = getBoundaries(problem);
  plan.accounting = problem.accounting;
  plan.signatures.resize(problem.operators.size());
}

bool Enumerator::run() {
  uint64_t count = countPlans(problem);
  if (count <= limit) {
    prepare();
    visitSignatures(0);
    count = numVisited;
  }
  if (count <= limit)
    return true;
  error = "the problem has more than " + std::to_string(limit) +
          " plans, expected fewer for an exhaustive search; use another one";
  return false;
}

bool tandem::search::enumeratePlans(const SearchProblem &problem,
                                    uint64_t limit, const PlanVisitor &visit,
                                    uint64_t &numVisited, std::string &error) {
  Enumerator enumerator(problem, limit, visit, error);
  bool isComplete = enumerator.run();
  numVisited = enumerator.numVisited;
  return isComplete;
}

//===----------------------------------------------------------------------===//
// The cheapest
//===----------------------------------------------------------------------===//

/// Of plans of equal cost, the one whose decisions are lexicographically first.
static bool isBetter(const Plan &plan, double cost, const Plan &best) {
  if (cost != best.cost)
    return cost < best.cost;
  auto getDecisions = [](const Plan &of) {
    return std::tie(of.signatures, of.stageEnds, of.kept, of.waiting, of.ahead);
  };
  return getDecisions(plan) < getDecisions(best);
}

static std::string describeInfeasible(const SearchProblem &problem,
                                      std::optional<int64_t> smallestPeak) {
  if (!smallestPeak)
    return "no choice of signatures is legal";
  return "no plan fits: the smallest peak is " + std::to_string(*smallestPeak) +
         " B, " + std::to_string(*smallestPeak - problem.memoryLimit) +
         " B above the limit of " + std::to_string(problem.memoryLimit) + " B";
}

SearchResult tandem::search::searchExhaustive(const SearchProblem &problem,
                                              const SearchOptions &options) {
  SearchResult result;
  std::optional<int64_t> smallestPeak;
  bool isComplete = true;
  uint64_t numLegal = 0;
  SearchEnd end(options);
  auto visit = [&](const Plan &plan, const CostReport &report) {
    if (report.peak < smallestPeak.value_or(kNoLimit)) {
      smallestPeak = report.peak;
      result.smallest = plan;
    }
    if (report.peak <= problem.memoryLimit &&
        (!result.plan || isBetter(plan, report.seconds, *result.plan))) {
      result.plan = plan;
      result.plan->cost = report.seconds;
    }
    constexpr uint64_t kPlansBetweenLooks = 4096;
    if (++numLegal % kPlansBetweenLooks == 0 && result.plan)
      isComplete = end.proceeds(0, result.plan->cost, 0);
    return isComplete;
  };
  if (!enumeratePlans(problem, kMaxExhaustivePlans, visit, result.numVisited,
                      result.error)) {
    result.plan.reset();
    return result;
  }
  if (!result.plan) {
    result.isInfeasible = true;
    result.lacksMemory = smallestPeak.has_value();
    result.smallestPeak = smallestPeak.value_or(0);
    result.error = describeInfeasible(problem, smallestPeak);
    return result;
  }
  result.smallest.reset();
  if (!derive(problem, *result.plan, result.error)) {
    result.plan.reset();
    return result;
  }
  result.plan->lowerBound = isComplete ? result.plan->cost : 0;
  result.plan->isOptimal = isComplete;
  return result;
}
