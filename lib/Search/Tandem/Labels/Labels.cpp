//===- Labels.cpp - exact search, left to right ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Labels/Labels.h"
#include "Tandem/Limits.h"
#include <algorithm>
#include <unordered_map>

using namespace tandem::cost;
using namespace tandem::search;

namespace {
class LabelSearch {
public:
  LabelSearch(const Facts &facts, ChangeTable &table,
              const PricedRelaxations &priced, const LabelLimits &limits)
      : facts(facts), limits(limits), line(facts.problem), walk(facts),
        completion(facts, walk, priced), expander(facts, table, line, walk),
        order(facts) {}

  LabelResult run();

private:
  using Front = std::vector<Label>;
  /// Labels by their keys. A table's order is not the same everywhere: the
  /// order of first insertion keeps the result reproducible.
  struct Fronts {
    std::unordered_map<std::string, size_t> places;
    std::vector<Front> list;

    Front &get(std::string key) {
      auto [entry, isNew] = places.try_emplace(std::move(key), list.size());
      return isNew ? list.emplace_back() : list[entry->second];
    }
  };

  uint64_t share(unsigned place);
  void countCompletion();
  bool proceeds(unsigned place);
  bool extend(const Label &label, unsigned place, Fronts &fronts);

  bool advance(unsigned place);
  void insert(Front &front, Label label) const;
  Plan makePlan(const Label &label) const;

  const Facts &facts;
  const LabelLimits &limits;
  Line line;
  LabelWalk walk;
  Completion completion;
  LabelExpander expander;
  LabelOrder order;
  Front labels;
  LabelResult result;
  /// Of the completion's work, what is in the result's.
  uint64_t countedUnits = 0;
  /// The work at which `proceeds` is asked next.
  uint64_t nextQuestion = 0;
};
} // namespace

void LabelSearch::insert(Front &front, Label label) const {
  for (const Label &other : front)
    if (order.isNoWorse(other, label))
      return;
  std::erase_if(
      front, [&](const Label &other) { return order.isNoWorse(label, other); });
  front.push_back(std::move(label));
}

/// Up to which work the operator at `place` may be decided: an equal share of
/// what is left where labels are dropped, those first that cost most at least.
uint64_t LabelSearch::share(unsigned place) {
  if (!limits.drops)
    return limits.maxWork;
  std::stable_sort(
      labels.begin(), labels.end(),
      [](const Label &a, const Label &b) { return a.least < b.least; });
  uint64_t left = limits.maxWork - std::min(limits.maxWork, result.work);
  return result.work + left / (walk.operators.size() - place);
}

/// What the completion looked at for the first time.
void LabelSearch::countCompletion() {
  uint64_t units = completion.work / kNumbersPerTensor;
  result.work += units - countedUnits;
  countedUnits = units;
}

/// Asks whether to go on, whenever some work is done.
bool LabelSearch::proceeds(unsigned place) {
  if (!limits.proceeds || result.work < nextQuestion)
    return true;
  nextQuestion = result.work + kQuestionWork;
  return limits.proceeds(double(place) / walk.operators.size());
}

/// Adds all labels that decide the operator at `place` behind `label`. False if
/// that is to stop.
bool LabelSearch::extend(const Label &label, unsigned place, Fronts &fronts) {
  for (Label &next : expander.expand(label, walk.operators[place])) {
    ++result.numLabels;
    result.work += next.tensors.size() + 1;
    next.least = std::max(label.least, completion.getLeast(next, place + 1));
    countCompletion();
    if (next.least <= limits.upperBound)
      insert(fronts.get(order.getKey(next)), std::move(next));
    if (!proceeds(place))
      return false;
  }
  return true;
}

/// Decides the operator at `place` in all labels. False if that is too much.
bool LabelSearch::advance(unsigned place) {
  uint64_t most = share(place);
  Fronts fronts;
  for (const Label &label : labels) {
    if (limits.drops && result.work > most) {
      result.dropped = std::min(result.dropped, label.least);
      break;
    }
    if (!extend(label, place, fronts))
      return false;
    if (!limits.drops &&
        (fronts.list.size() > limits.maxFront || result.work > most))
      return false;
  }
  labels.clear();
  for (Front &front : fronts.list)
    std::move(front.begin(), front.end(), std::back_inserter(labels));
  return limits.drops || labels.size() <= limits.maxFront;
}

Plan LabelSearch::makePlan(const Label &label) const {
  Plan plan;
  unsigned numOperators = facts.problem.operators.size();
  plan.signatures.resize(numOperators);
  plan.stageEnds = {numOperators};
  for (const Decision *at = label.decision.get(); at; at = at->previous.get()) {
    plan.signatures[at->op] = at->signature;
    if (at->cuts)
      plan.stageEnds.push_back(at->op);
    plan.kept.insert(plan.kept.end(), at->kept.begin(), at->kept.end());
    plan.waiting.insert(plan.waiting.end(), at->waiting.begin(),
                        at->waiting.end());
  }
  std::reverse(plan.stageEnds.begin(), plan.stageEnds.end());
  std::sort(plan.kept.begin(), plan.kept.end());
  std::sort(plan.waiting.begin(), plan.waiting.end());
  return plan;
}

LabelResult LabelSearch::run() {
  labels.emplace_back();
  countCompletion();
  for (unsigned place = 0; place < walk.operators.size(); ++place)
    if (!advance(place))
      return std::move(result);
  result.isComplete = true;
  const Label *best = nullptr;
  for (Label &label : labels) {
    expander.finish(label);
    if (label.getPeak() <= facts.problem.memoryLimit &&
        (!best || label.line.seconds < best->line.seconds))
      best = &label;
  }
  if (best) {
    result.plan = makePlan(*best);
    result.seconds = best->line.seconds;
  }
  return std::move(result);
}

LabelResult tandem::search::searchLabels(const Facts &facts, ChangeTable &table,
                                         const PricedRelaxations &priced,
                                         const LabelLimits &limits) {
  return LabelSearch(facts, table, priced, limits).run();
}
