//===- ExplainEstimate.cpp - local estimates of other forms ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Tandem/Improve/Editor.h"
#include "../Tandem/Improve/Pool.h"
#include "../Tandem/Problem/Fold.h"
#include "../Tandem/Relaxation/Relaxation.h"
#include "ExplainForms.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

/// How often all may adapt to forms that are far from the plan's.
constexpr unsigned kMaxRounds = 4;
/// Forms of an entry, the best first, for which stages are chosen anew.
constexpr size_t kMaxRefinedForms = 2;
/// Operators times forms that `cost` is asked about for one entry: of large
/// problems those that the relaxed cost likes best.
constexpr size_t kMaxWork = 60'000, kMinForms = 3;
/// Forms of an entry that is asked about briefly: as many as are shown.
constexpr size_t kBriefForms = 2;
/// Problems of more operators keep their stages: new ones take as long as a
/// search for two dozen entries.
constexpr size_t kMaxDivided = 2000;
/// Numbers that may be looked at behind the end of the search (about 10^9 in a
/// second); and so many are, per operator, for what a plan costs.
constexpr uint64_t kLateWork = 200'000'000, kCostedWork = 400;

namespace {
/// Signatures that give an entry another form.
struct Candidate {
  std::vector<unsigned> signatures;
  Choice totals;
};

/// Forces a form upon an entry's tensors; what lies next to them adapts by the
/// relaxed cost, and `cost` has the last word.
class Estimator {
public:
  Estimator(PlanFacts &facts, SearchEnd &end);
  bool find(const FormEntry &entry, Effort effort, MetPlans &plans);

private:
  bool proceeds();
  unsigned getVariable(unsigned tensor) const {
    return repeats[facts.facts.groupOf[facts.facts.tensors[tensor].producer]];
  }
  std::optional<Move> findMove(unsigned tensor, const Layout &layout) const;
  std::vector<Layout> getLayouts(unsigned tensor) const;
  std::vector<unsigned> force(const FormEntry &entry, const Layout &layout);
  void addCandidate(const FormEntry &entry, std::vector<unsigned> signatures,
                    std::vector<Candidate> &candidates);
  void refine(const FormEntry &entry, Candidate &candidate, MetPlans &plans);

  PlanFacts &facts;
  SearchEnd &end;
  /// Numbers that were looked at for what plans cost; and for all together
  /// before the end.
  uint64_t costWork = 0, workBefore = 0;
  FactorGraph graph;
  std::vector<unsigned> repeats;
  Relaxation folded;
  /// Holds the plan between two questions.
  PlanEditor editor;
  /// The plan's signatures by variable.
  std::vector<unsigned> values;
  /// Of each variable, the cheapest first.
  std::vector<std::vector<Move>> movesOf;
};
} // namespace

Estimator::Estimator(PlanFacts &facts, SearchEnd &end)
    : facts(facts), end(end), graph(facts.facts, facts.table),
      repeats(findRepeats(graph, kFoldDistance)), folded(graph, repeats),
      editor(facts.facts, facts.table) {
  graph.setWeights(Weights());
  folded.reset();
  for (const Variable &variable : graph.variables)
    values.push_back(facts.plan.signatures[variable.operators.front()]);
  movesOf.resize(graph.variables.size());
  for (const Move &move : folded.getMoves(values))
    movesOf[move.variable].push_back(move);
  editor.set(facts.plan);
}

/// Whether another form may be tried.
bool Estimator::proceeds() {
  uint64_t work = costWork + folded.getSettleWork();
  if (end.proceeds())
    workBefore = work;
  return work - workBefore <= kLateWork;
}

/// The cheapest move that gives the tensor this layout; else, of those after
/// which more than its neighbours have to change, at an infinite price, the one
/// that has the most forms in common with the plan's. Nothing if none does.
std::optional<Move> Estimator::findMove(unsigned tensor,
                                        const Layout &layout) const {
  const TensorFacts &info = facts.facts.tensors[tensor];
  const SignatureSet &set = facts.problem.getSignatures(info.producer);
  unsigned variable = getVariable(tensor);
  for (const Move &move : movesOf[variable])
    if (set[move.value].results[info.result] == layout)
      return move;
  const Signature &now = set[facts.plan.signatures[info.producer]];
  std::optional<Move> nearest;
  size_t most = 0;
  for (unsigned i = 0; i < set.size(); ++i) {
    if (set[i].results[info.result] != layout)
      continue;
    size_t equal = 1;
    for (size_t j = 0; j < now.operands.size(); ++j)
      equal += set[i].operands[j] == now.operands[j];
    for (size_t j = 0; j < now.results.size(); ++j)
      equal += set[i].results[j] == now.results[j];
    if (equal > most) {
      most = equal;
      nearest = Move{variable, i, kInfinity};
    }
  }
  return nearest;
}

/// Other layouts that a tensor can have, by the prices of their moves.
std::vector<Layout> Estimator::getLayouts(unsigned tensor) const {
  std::vector<std::pair<double, Layout>> prices;
  for (const Layout &layout : facts.getLayouts(tensor))
    if (layout != facts.getLayout(tensor))
      prices.emplace_back(findMove(tensor, layout)->added, layout);
  std::ranges::sort(prices);
  std::vector<Layout> layouts;
  for (const auto &[price, layout] : prices)
    layouts.push_back(layout);
  return layouts;
}

/// The signatures of all operators with the layout forced upon those tensors of
/// the entry that can have it. Of repeated layers, which are alike, the one
/// that stands for all changes.
std::vector<unsigned> Estimator::force(const FormEntry &entry,
                                       const Layout &layout) {
  std::vector<unsigned> forced = values;
  std::vector<bool> fixed(graph.variables.size());
  bool isFar = false;
  for (unsigned tensor : entry.tensors) {
    std::optional<Move> move = findMove(tensor, layout);
    if (!move || fixed[move->variable])
      continue;
    fixed[move->variable] = true;
    if (move->added < kInfinity) {
      folded.force(forced, move->variable, move->value);
    } else {
      forced[move->variable] = move->value;
      isFar = true;
    }
  }
  if (isFar)
    folded.descend(forced, kMaxRounds, fixed);
  std::vector<unsigned> signatures;
  for (unsigned variable : facts.facts.groupOf)
    signatures.push_back(forced[variable]);
  return signatures;
}

/// New stages and copies, which may cost less, or fit.
void Estimator::refine(const FormEntry &entry, Candidate &candidate,
                       MetPlans &plans) {
  PlanPool pool(facts.facts, facts.table);
  pool.offer(candidate.signatures);
  if (pool.best)
    plans.add(pool.best->signatures, describePlan(facts, *pool.best), entry);
  else
    candidate.totals.peak = std::min(candidate.totals.peak, pool.leastPeak);
}

/// The plan with other signatures, its own stages with the cuts that new copies
/// need, and its decisions on copies, if that is a plan. Where it is too large,
/// copies of the entry's tensors are made again in each pass, if that is
/// enough.
void Estimator::addCandidate(const FormEntry &entry,
                             std::vector<unsigned> signatures,
                             std::vector<Candidate> &candidates) {
  costWork += kCostedWork * facts.problem.operators.size();
  PlanEditor::Mark mark = editor.mark();
  std::optional<Plan> plan;
  if (editor.setSignatures(signatures))
    plan = editor.getPlan();
  editor.undo(mark);
  if (!plan)
    return;
  Choice totals = describePlan(facts, *plan);
  auto isOfEntry = [&](const Copy &copy) {
    return std::ranges::count(entry.tensors, copy.tensor) > 0;
  };
  if (!totals.fits && std::erase_if(plan->kept, isOfEntry) > 0)
    if (Choice again = describePlan(facts, *plan); again.fits)
      totals = std::move(again);
  candidates.push_back({std::move(signatures), std::move(totals)});
}

bool Estimator::find(const FormEntry &entry, Effort effort, MetPlans &plans) {
  if (!proceeds())
    return false;
  size_t most = kBriefForms;
  if (effort == Effort::Full && !end.isOver())
    most = std::max(kMinForms, kMaxWork / facts.problem.operators.size());
  std::vector<Candidate> candidates;
  for (const Layout &layout : getLayouts(entry.tensors.front())) {
    if (candidates.size() == most || !proceeds())
      break;
    addCandidate(entry, force(entry, layout), candidates);
  }
  std::ranges::stable_sort(candidates, {}, [](const Candidate &candidate) {
    return getRank(candidate.totals);
  });
  bool isDivided =
      effort == Effort::Full && facts.problem.operators.size() <= kMaxDivided;
  size_t numRefined = isDivided ? kMaxRefinedForms : 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (i < numRefined && end.proceeds())
      refine(entry, candidates[i], plans);
    plans.add(candidates[i].signatures, candidates[i].totals, entry);
  }
  return true;
}

ChoiceFinder tandem::search::makeEstimator(PlanFacts &facts, SearchEnd &end) {
  return [estimator = std::make_shared<Estimator>(facts, end)](
             const FormEntry &entry, Effort effort, MetPlans &plans) {
    return estimator->find(entry, effort, plans);
  };
}
