//===- PlanVariants.cpp - plans that give tensors other forms -------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Search/PlanVariants.h"
#include "Tandem/Improve/Editor.h"
#include "Tandem/Problem/Sources.h"
#include "Tandem/Relaxation/Fold.h"
#include "Tandem/Relaxation/Relaxation.h"
#include "Tandem/Stages/Pool.h"
#include <algorithm>
#include <set>

using namespace tandem::cost;
using namespace tandem::search;

/// How often all may adapt to forms that are far from the plan's.
constexpr unsigned kMaxRounds = 4;

class PlanVariants::Estimate {
public:
  Estimate(const SearchProblem &problem, const Plan &plan, ChangeTable &table);

  std::optional<Move> findMove(unsigned tensor, const Layout &layout) const;
  unsigned getVariable(unsigned tensor) const {
    return repeats[facts.groupOf[facts.tensors[tensor].producer]];
  }

  const Plan &plan;
  Facts facts;
  ChangeTable &table;
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

PlanVariants::Estimate::Estimate(const SearchProblem &problem, const Plan &plan,
                                 ChangeTable &table)
    : plan(plan), facts(problem), table(table), graph(facts, table),
      repeats(findRepeats(graph, kFoldDistance)), folded(graph, repeats),
      editor(facts, table) {
  graph.setWeights(Weights());
  folded.reset();
  for (const Variable &variable : graph.variables)
    values.push_back(plan.signatures[variable.operators.front()]);
  movesOf.resize(graph.variables.size());
  for (const Move &move : folded.getMoves(values))
    movesOf[move.variable].push_back(move);
  editor.set(plan);
}

/// The cheapest move that gives the tensor this layout; else, of those after
/// which more than its neighbours have to change, at an infinite price, the one
/// that has the most forms in common with the plan's. Nothing if none does.
std::optional<Move>
PlanVariants::Estimate::findMove(unsigned tensor, const Layout &layout) const {
  const TensorFacts &info = facts.tensors[tensor];
  const SignatureSet &set = facts.problem.getSignatures(info.producer);
  unsigned variable = getVariable(tensor);
  for (const Move &move : movesOf[variable])
    if (set[move.value].results[info.result] == layout)
      return move;
  const Signature &now = set[plan.signatures[info.producer]];
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

PlanVariants::PlanVariants(const SearchProblem &problem, const Plan &plan,
                           ChangeTable &table)
    : estimate(std::make_unique<Estimate>(problem, plan, table)) {}

PlanVariants::~PlanVariants() = default;

std::vector<Layout> PlanVariants::listLayouts(unsigned tensor) const {
  const Facts &facts = estimate->facts;
  const TensorFacts &info = facts.tensors[tensor];
  std::set<Layout> all;
  for (const Signature &signature : facts.problem.getSignatures(info.producer))
    all.insert(signature.results[info.result]);
  std::vector<std::pair<double, Layout>> prices;
  for (const Layout &layout : all)
    if (layout != facts.getProduced(estimate->plan.signatures, tensor))
      prices.emplace_back(estimate->findMove(tensor, layout)->added, layout);
  std::ranges::sort(prices);
  std::vector<Layout> layouts;
  for (const auto &[price, layout] : prices)
    layouts.push_back(layout);
  return layouts;
}

std::vector<unsigned> PlanVariants::force(const std::vector<unsigned> &tensors,
                                          const Layout &layout) {
  std::vector<unsigned> forced = estimate->values;
  std::vector<bool> fixed(forced.size());
  bool isFar = false;
  for (unsigned tensor : tensors) {
    std::optional<Move> move = estimate->findMove(tensor, layout);
    if (!move || fixed[move->variable])
      continue;
    fixed[move->variable] = true;
    if (move->added < kInfinity) {
      estimate->folded.force(forced, move->variable, move->value);
    } else {
      forced[move->variable] = move->value;
      isFar = true;
    }
  }
  if (isFar)
    estimate->folded.descend(forced, kMaxRounds, fixed);
  std::vector<unsigned> signatures;
  for (unsigned variable : estimate->facts.groupOf)
    signatures.push_back(forced[variable]);
  return signatures;
}

uint64_t PlanVariants::getWork() const {
  return estimate->folded.getSettleWork();
}

std::optional<Plan>
PlanVariants::keepStages(const std::vector<unsigned> &signatures) {
  PlanEditor &editor = estimate->editor;
  PlanEditor::Mark mark = editor.mark();
  std::optional<Plan> plan;
  if (editor.setSignatures(editor.listChanges(signatures)))
    plan = editor.getPlan();
  if (plan)
    plan->gathersAhead = estimate->plan.gathersAhead;
  editor.undo(mark);
  return plan;
}

bool tandem::search::isFetched(const SearchProblem &problem, unsigned op) {
  const Operator &copy = problem.operators[op];
  return copy.isAgain && copy.operands.size() == 1 &&
         problem.tensors[copy.operands.front()].elementBytes == 0;
}

/// The first source of the value that is made again, or that waits on the host;
/// 0 without one.
static uint8_t getSource(const SearchProblem &problem, const SourceValue &value,
                         bool isFromHost) {
  for (uint8_t source = 1; source < value.makers.size(); ++source)
    if (!value.makers[source].empty() &&
        isFetched(problem, value.makers[source].front()) == isFromHost)
      return source;
  return 0;
}

/// The values of which a saved tensor is one of these.
static std::vector<unsigned> listSaved(const Sources &sources,
                                       const std::vector<unsigned> &tensors) {
  std::vector<unsigned> found;
  for (unsigned value = 0; value < sources.getValues().size(); ++value)
    if (std::ranges::any_of(sources.getValues()[value].saved, [&](unsigned t) {
          return std::ranges::count(tensors, t) > 0;
        }))
      found.push_back(value);
  return found;
}

std::vector<unsigned>
PlanVariants::send(const std::vector<unsigned> &tensors) const {
  Sources sources(estimate->facts, estimate->table);
  std::vector<unsigned> signatures = estimate->plan.signatures;
  SourceChoice choice = sources.read(signatures);
  for (unsigned value : listSaved(sources, tensors))
    choice[value] = getSource(estimate->facts.problem,
                              sources.getValues()[value], /*isFromHost=*/true);
  sources.write(choice, signatures);
  return signatures;
}

/// The values that clones read which make `value`, and that nobody else reads.
static std::vector<unsigned>
listHeldForIt(const Sources &sources, unsigned value, uint8_t source,
              const std::vector<unsigned> &numSaved) {
  std::vector<unsigned> held;
  for (unsigned op : sources.getValues()[value].makers[source])
    for (unsigned read : sources.getRead(op))
      if (read != value && numSaved[read] == 0)
        held.push_back(read);
  return held;
}

std::vector<unsigned>
PlanVariants::makeAgain(const std::vector<unsigned> &tensors,
                        bool isDeep) const {
  Sources sources(estimate->facts, estimate->table);
  std::vector<unsigned> signatures = estimate->plan.signatures,
                        changed = listSaved(sources, tensors);
  SourceChoice choice = sources.read(signatures);
  std::vector<unsigned> numSaved = sources.countSaved(signatures);
  while (!changed.empty()) {
    unsigned value = changed.back();
    changed.pop_back();
    if (choice[value] != 0)
      continue;
    choice[value] = getSource(estimate->facts.problem,
                              sources.getValues()[value], /*isFromHost=*/false);
    if (isDeep && choice[value] != 0)
      for (unsigned read :
           listHeldForIt(sources, value, choice[value], numSaved))
        changed.push_back(read);
  }
  sources.write(choice, signatures);
  return signatures;
}

PlanVariants::Divided
PlanVariants::divide(const std::vector<unsigned> &signatures) const {
  PlanPool pool(estimate->facts, estimate->table);
  pool.offer(signatures);
  return {std::move(pool.best), pool.leastPeak};
}
