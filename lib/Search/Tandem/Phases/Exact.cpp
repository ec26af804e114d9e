//===- Exact.cpp - exact search of small problems -------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Phases/Exact.h"
#include "Tandem/Limits.h"
#include "Tandem/Relaxation/Fold.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

static FactorGraph getPriced(FactorGraph graph, const Weights &weights) {
  graph.setWeights(weights);
  return graph;
}

ExactSearch::ExactSearch(SearchContext &context, const Weights &weights,
                         uint64_t maxWork)
    : context(context), problem(context.problem), facts(context.facts),
      graph(getPriced(context.graph, weights)),
      relaxation(graph, getUnfolded(graph)), forms(facts, context.table),
      stages(facts), maxWork(maxWork), values(graph.variables.size()) {
  for (unsigned i = 0; i < kExactSweeps; ++i)
    relaxation.sweep();
}

double ExactSearch::getGoal() const {
  return context.pool.seconds /
         (1 + std::max(context.options.gap, kProven / 2));
}

/// False if there is no more work, or who watches has enough.
bool ExactSearch::spend(uint64_t more) {
  work += more;
  if (work > maxWork)
    return false;
  if (work < nextQuestion)
    return true;
  nextQuestion = work + kQuestionWork;
  return context.proceeds(0.9);
}

bool ExactSearch::run() { return chooseSignatures(0); }

//===----------------------------------------------------------------------===//
// Signatures
//===----------------------------------------------------------------------===//

bool ExactSearch::chooseSignatures(unsigned variable) {
  ++numNodes;
  if (!spend(problem.operators.size()))
    return false;
  if (relaxation.getBound() - kRounding * graph.forbidden >= getGoal())
    return true;
  if (variable == values.size()) {
    plan.signatures = context.getSignatures(values);
    plan.kept.clear();
    plan.waiting.clear();
    return graph.getHeldBytes(plan.signatures) > problem.memoryLimit ||
           chooseCopies(0);
  }
  bool isComplete = true;
  for (unsigned value = 0; value < graph.variables[variable].size && isComplete;
       ++value) {
    values[variable] = value;
    relaxation.decide(variable, value);
    isComplete = chooseSignatures(variable + 1);
  }
  relaxation.leaveOpen(variable);
  return isComplete;
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

double ExactSearch::getSeconds(unsigned tensor, const Layout &from,
                               const Layout &to) const {
  const ChangeCost &change = context.table.getCost(tensor, from, to);
  return change.isPossible ? change.getTotal(facts.numStrands) : kInfinity;
}

/// Whether some later use takes the copy, or one that is made of it rather than
/// of what was produced.
bool ExactSearch::isUseful(unsigned tensor, unsigned firstUse,
                           const Layout &layout) const {
  const std::vector<TensorUse> &uses = facts.tensors[tensor].uses;
  return std::any_of(
      uses.begin() + firstUse, uses.end(), [&](const TensorUse &use) {
        const Layout &wanted = facts.getWanted(plan.signatures, use);
        Layout base = facts.getBase(plan.signatures, tensor, use);
        return wanted != base && !wanted.isAbsent() &&
               (wanted == layout || getSeconds(tensor, layout, wanted) <
                                        getSeconds(tensor, base, wanted));
      });
}

/// Whether the copy may be made of the gradient beside what comes before the
/// updates.
bool ExactSearch::mayWait(unsigned tensor, const TensorUse &use) const {
  if (problem.operators[use.op].pass != Pass::Update || !facts.mayWait(tensor))
    return false;
  const ChangeCost &change =
      context.table.getCost(tensor, facts.getBase(plan.signatures, tensor, use),
                            facts.getWanted(plan.signatures, use));
  return change.isPossible && !change.joins;
}

/// Calls `take` with every subset, that of all first.
template <typename T, typename Take>
static void forEachSubset(const std::vector<T> &all, Take take) {
  for (uint64_t bits = uint64_t(1) << all.size(); bits-- > 0;) {
    std::vector<T> subset;
    for (size_t i = 0; i < all.size(); ++i)
      if (bits >> i & 1)
        subset.push_back(all[i]);
    take(subset);
  }
}

/// Adds all choices for the uses from `firstUse` on, with copies `there` from
/// passes before: behind a pass each is kept or not, and what an update is the
/// first to want waits or not.
void ExactSearch::addCopies(unsigned tensor, unsigned firstUse,
                            const std::vector<Layout> &there,
                            const Copies &before,
                            std::vector<Copies> &all) const {
  const std::vector<TensorUse> &uses = facts.tensors[tensor].uses;
  if (firstUse == uses.size()) {
    all.push_back(before);
    return;
  }
  Pass pass = problem.operators[uses[firstUse].op].pass;
  std::vector<Layout> copies = there;
  std::vector<Copy> waitable, keepable;
  unsigned next = firstUse;
  for (; next < uses.size() && problem.operators[uses[next].op].pass == pass;
       ++next) {
    const Layout &wanted = facts.getWanted(plan.signatures, uses[next]);
    if (wanted.isAbsent() ||
        wanted == facts.getBase(plan.signatures, tensor, uses[next]) ||
        std::count(copies.begin(), copies.end(), wanted))
      continue;
    copies.push_back(wanted);
    if (mayWait(tensor, uses[next]))
      waitable.push_back({tensor, wanted, pass});
  }
  for (const Layout &layout : copies)
    if (isUseful(tensor, next, layout))
      keepable.push_back({tensor, layout, pass});
  forEachSubset(waitable, [&](const std::vector<Copy> &waiting) {
    forEachSubset(keepable, [&](const std::vector<Copy> &kept) {
      Copies chosen = before;
      chosen.waiting.insert(chosen.waiting.end(), waiting.begin(),
                            waiting.end());
      chosen.kept.insert(chosen.kept.end(), kept.begin(), kept.end());
      std::vector<Layout> left;
      for (const Copy &copy : kept)
        left.push_back(copy.layout);
      addCopies(tensor, next, left, chosen, all);
    });
  });
}

bool ExactSearch::chooseCopies(unsigned tensor) {
  if (tensor == facts.tensors.size())
    return divide();
  std::vector<Copies> all;
  addCopies(tensor, 0, {}, {}, all);
  size_t numKept = plan.kept.size(), numWaiting = plan.waiting.size();
  for (const Copies &copies : all) {
    plan.kept.insert(plan.kept.end(), copies.kept.begin(), copies.kept.end());
    plan.waiting.insert(plan.waiting.end(), copies.waiting.begin(),
                        copies.waiting.end());
    std::sort(plan.kept.begin() + numKept, plan.kept.end());
    std::sort(plan.waiting.begin() + numWaiting, plan.waiting.end());
    bool isComplete = chooseCopies(tensor + 1);
    plan.kept.resize(numKept);
    plan.waiting.resize(numWaiting);
    if (!isComplete)
      return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// The dynamic program does not know how long copies wait, nor that these are
/// made of nothing but the gradient: what it finds bounds all divisions, and
/// where its plan is legal and fits, that is the best one.
bool ExactSearch::divide() {
  StageLimits limits = {.maxFront = kExactFront, .memory = problem.memoryLimit};
  if (!forms.analyse(plan, /*holdsLeast=*/true))
    return spend(problem.operators.size());
  std::optional<double> least = stages.plan(forms, plan, limits);
  if (!stages.isComplete ||
      !spend(problem.operators.size() + stages.numPairs / kPairsPerOperator))
    return false;
  if (!least || *least >= getGoal() ||
      context.pool.take(plan) <= *least * (1 + kProven / 2))
    return true;
  plan.stageEnds.clear();
  return tryDivisions(1);
}

/// The division at hand, with all that it may run ahead.
bool ExactSearch::tryAhead() {
  bool isComplete = true;
  plan.ahead.clear();
  forEachSubset(facts.hasAgain ? listAheadable(problem, plan, context.table)
                               : std::vector<unsigned>(),
                [&](const std::vector<unsigned> &stages) {
                  isComplete = isComplete && spend(problem.operators.size());
                  if (!isComplete)
                    return;
                  plan.ahead = stages;
                  std::string error;
                  std::optional<CostReport> report =
                      cost::cost(problem, plan, context.table, error);
                  if (report && report->peak <= problem.memoryLimit &&
                      report->seconds < getGoal())
                    context.pool.take(plan);
                });
  plan.ahead.clear();
  return isComplete;
}

/// All that cut from `firstOp` on, behind what is decided; not beside
/// arguments, but that these may be a stage of their own.
bool ExactSearch::tryDivisions(unsigned firstOp) {
  unsigned op = firstOp, end = problem.operators.size();
  while (op < end && facts.isArgument(op))
    ++op;
  if (op == end) {
    plan.stageEnds.push_back(end);
    bool isComplete = tryAhead();
    plan.stageEnds.pop_back();
    return isComplete;
  }
  plan.stageEnds.push_back(op);
  bool isComplete = tryDivisions(op + 1);
  plan.stageEnds.pop_back();
  return isComplete && tryDivisions(op + 1);
}
