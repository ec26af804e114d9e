//===- ExplainEstimate.cpp - other forms, by local estimates --------------===//
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
#include <map>

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
class Estimator : public ChoiceFinder {
public:
  Estimator(PlanFacts &facts, SearchEnd &end);
  bool find(const FormEntry &entry, Effort effort, MetPlans &plans) override;

private:
  /// Values with some of them fixed.
  struct Forced {
    std::vector<unsigned> values;
    std::vector<bool> fixed;
    /// Whether more than neighbours have to adapt.
    bool isFar;
  };
  bool proceeds();
  uint64_t getSettleWork(unsigned variable) const;
  uint64_t getForceWork(unsigned variable) const;
  int findNearest(const TensorFacts &tensor, const Layout &layout) const;
  bool forceTensor(const TensorFacts &tensor, const Layout &layout,
                   Forced &forced);
  std::vector<unsigned> force(const FormEntry &entry, const Layout &layout);
  std::optional<Plan> adapt(const std::vector<unsigned> &signatures);
  void addCandidate(const FormEntry &entry, const std::vector<unsigned> &forced,
                    std::vector<Candidate> &candidates);
  std::vector<Layout> getLayouts(const FormEntry &entry) const;
  void refine(const FormEntry &entry, Candidate &candidate, MetPlans &plans);

  PlanFacts &facts;
  SearchEnd &end;
  /// Numbers that were looked at, and how many of them before the end.
  uint64_t work = 0, workBefore = 0;
  FactorGraph graph;
  std::vector<unsigned> repeats;
  Relaxation folded;
  /// Holds the plan between two questions.
  PlanEditor editor;
  /// The plan's signatures by variable.
  std::vector<unsigned> values;
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
  if (end.proceeds())
    workBefore = work;
  return work - workBefore <= kLateWork;
}

/// Numbers that are looked at while a variable settles: each of its layouts
/// with what each user of the tensor finds made by those before.
uint64_t Estimator::getSettleWork(unsigned variable) const {
  uint64_t sum = 0;
  for (auto [index, slot] : graph.variables[variable].slots) {
    const Factor &factor = graph.factors[index];
    uint64_t numUsers = factor.variables.size();
    sum += graph.getMap(factor, slot).layouts.size() * numUsers * numUsers / 2;
  }
  return sum;
}

/// The same, of those next to a variable that is forced.
uint64_t Estimator::getForceWork(unsigned variable) const {
  uint64_t sum = 0;
  for (auto [factor, slot] : graph.variables[variable].slots)
    for (unsigned next : graph.factors[factor].variables)
      sum += 2 * getSettleWork(repeats[next]);
  return sum;
}

/// Other layouts that the first tensor can have: those that a single change
/// gives, by what it adds to the relaxed cost, and then the others.
std::vector<Layout> Estimator::getLayouts(const FormEntry &entry) const {
  const TensorFacts &tensor = facts.facts.tensors[entry.tensors.front()];
  const SignatureSet &signatures = facts.problem.getSignatures(tensor.producer);
  std::map<Layout, double> prices;
  for (const Signature &signature : signatures)
    prices[signature.results[tensor.result]] = kInfinity;
  for (const Move &move : movesOf[repeats[graph.variableOf[tensor.producer]]]) {
    const std::vector<Layout> &results = signatures[move.value].results;
    double &price = prices[results[tensor.result]];
    price = std::min(price, move.added);
  }
  prices.erase(facts.getLayout(entry.tensors.front()));
  std::vector<Layout> layouts;
  for (const auto &[layout, price] : prices)
    layouts.push_back(layout);
  std::stable_sort(
      layouts.begin(), layouts.end(),
      [&](const Layout &a, const Layout &b) { return prices[a] < prices[b]; });
  return layouts;
}

/// The signature of a tensor's producer that gives it this layout and has the
/// most forms in common with the plan's; -1 if none does.
int Estimator::findNearest(const TensorFacts &tensor,
                           const Layout &layout) const {
  const SignatureSet &set = facts.problem.getSignatures(tensor.producer);
  const Signature &now = set[facts.plan.signatures[tensor.producer]];
  int nearest = -1;
  size_t most = 0;
  for (size_t i = 0; i < set.size(); ++i) {
    if (set[i].results[tensor.result] != layout)
      continue;
    size_t equal = 1;
    for (size_t j = 0; j < now.operands.size(); ++j)
      equal += set[i].operands[j] == now.operands[j];
    for (size_t j = 0; j < now.results.size(); ++j)
      equal += set[i].results[j] == now.results[j];
    if (equal > most) {
      most = equal;
      nearest = static_cast<int>(i);
    }
  }
  return nearest;
}

/// Gives a tensor the layout: by the cheapest single change, else by one after
/// which more than its neighbours have to change. Of repeated layers, which are
/// alike, the one that stands for all changes.
bool Estimator::forceTensor(const TensorFacts &tensor, const Layout &layout,
                            Forced &forced) {
  unsigned variable = repeats[graph.variableOf[tensor.producer]];
  if (forced.fixed[variable])
    return false;
  forced.fixed[variable] = true;
  const SignatureSet &set = facts.problem.getSignatures(tensor.producer);
  for (const Move &move : movesOf[variable])
    if (set[move.value].results[tensor.result] == layout) {
      folded.force(forced.values, variable, move.value);
      work += getForceWork(variable);
      return true;
    }
  int nearest = findNearest(tensor, layout);
  if (nearest < 0)
    return false;
  forced.values[variable] = nearest;
  forced.isFar = true;
  return true;
}

/// The values of all variables with the layout forced upon those tensors of the
/// entry that can have it; empty if none can.
std::vector<unsigned> Estimator::force(const FormEntry &entry,
                                       const Layout &layout) {
  Forced forced{values, std::vector<bool>(graph.variables.size()), false};
  bool isForced = false;
  for (unsigned tensor : entry.tensors)
    isForced |= forceTensor(facts.facts.tensors[tensor], layout, forced);
  if (!isForced)
    return {};
  if (forced.isFar) {
    folded.descend(forced.values, kMaxRounds, forced.fixed);
    work += kMaxRounds * folded.getWork();
  }
  return forced.values;
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
/// need, and its decisions on copies. Nothing if that is no plan.
std::optional<Plan> Estimator::adapt(const std::vector<unsigned> &signatures) {
  PlanEditor::Mark mark = editor.mark();
  std::optional<Plan> plan;
  if (editor.setSignatures(signatures))
    plan = editor.getPlan();
  editor.undo(mark);
  return plan;
}

/// A plan with the values and the plan's own stages, if that is legal.
/// Where it is too large, copies of the entry's tensors are made again in each
/// pass, if that is enough.
void Estimator::addCandidate(const FormEntry &entry,
                             const std::vector<unsigned> &forced,
                             std::vector<Candidate> &candidates) {
  std::vector<unsigned> signatures;
  for (unsigned op = 0; op < facts.problem.operators.size(); ++op)
    signatures.push_back(forced[graph.variableOf[op]]);
  work += kCostedWork * facts.problem.operators.size();
  std::optional<Plan> plan = adapt(signatures);
  if (!plan)
    return;
  Choice totals = describePlan(facts, *plan);
  auto isOfEntry = [&](const Copy &copy) {
    return std::find(entry.tensors.begin(), entry.tensors.end(), copy.tensor) !=
           entry.tensors.end();
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
  for (const Layout &layout : getLayouts(entry)) {
    if (candidates.size() == most || !proceeds())
      break;
    std::vector<unsigned> forced = force(entry, layout);
    if (!forced.empty())
      addCandidate(entry, forced, candidates);
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate &a, const Candidate &b) {
                     if (a.totals.fits != b.totals.fits)
                       return a.totals.fits;
                     return a.totals.seconds < b.totals.seconds;
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

std::unique_ptr<ChoiceFinder> tandem::search::makeEstimator(PlanFacts &facts,
                                                            SearchEnd &end) {
  return std::make_unique<Estimator>(facts, end);
}
