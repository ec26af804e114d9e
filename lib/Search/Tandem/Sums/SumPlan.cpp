//===- SumPlan.cpp - plans of sums, and back ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Sums/Sum.h"
#include <algorithm>
#include <set>

using namespace tandem::cost;
using namespace tandem::search;

std::optional<std::vector<unsigned>>
SumModel::getChoice(const std::vector<unsigned> &signatures) const {
  std::vector<unsigned> choice;
  for (const SumVariable &variable : variables) {
    auto place = std::find(variable.values.begin(), variable.values.end(),
                           signatures[variable.operators.front()]);
    if (place == variable.values.end())
      return std::nullopt;
    choice.push_back(place - variable.values.begin());
  }
  return choice;
}

/// Keeps copies up to the last pass that takes them or makes others of them.
void SumModel::addCopies(Plan &plan, unsigned index) const {
  const SumFactor &factor = factors[index];
  const TensorFacts &info = facts.tensors[factor.tensor];
  auto getPass = [&](const TensorUse &use) {
    return facts.problem.operators[use.op].pass;
  };
  struct Made {
    Layout layout;
    Pass pass, last;
    unsigned stage;
  };
  const Layout &produced = facts.getProduced(plan.signatures, factor.tensor);
  std::vector<Made> copies;
  for (const TensorUse &use : info.uses) {
    const Layout &wanted = facts.getWanted(plan.signatures, use);
    if (wanted.isAbsent())
      continue;
    Pass pass = getPass(use);
    auto known =
        std::find_if(copies.begin(), copies.end(),
                     [&](const Made &copy) { return copy.layout == wanted; });
    if (known != copies.end())
      known->last = pass;
    if (wanted == produced || known != copies.end())
      continue;
    unsigned stage = stageOf[use.op];
    double direct = changes.getCost(factor.tensor, produced, wanted)
                        .getTotal(facts.numStrands),
           least = direct;
    Made *source = nullptr;
    for (Made &copy : copies) {
      const ChangeCost &change =
          changes.getCost(factor.tensor, copy.layout, wanted);
      if (copy.stage < stage && change.isPossible &&
          change.getTotal(facts.numStrands) < least) {
        least = change.getTotal(facts.numStrands);
        source = &copy;
      }
    }
    if (source)
      source->last = pass;
    else if (mayWait(factor.tensor, use) && direct > 0)
      plan.waiting.push_back({factor.tensor, wanted, pass});
    copies.push_back({wanted, pass, pass, stage});
  }
  std::set<Pass> passes;
  for (const TensorUse &use : info.uses)
    passes.insert(getPass(use));
  for (const Made &copy : copies)
    for (Pass pass : passes)
      if (pass >= copy.pass && pass < copy.last)
        plan.kept.push_back({factor.tensor, copy.layout, pass});
}

Plan SumModel::getPlan(const std::vector<unsigned> &choice) const {
  Plan plan;
  for (unsigned op = 0; op < facts.groupOf.size(); ++op) {
    unsigned variable = facts.groupOf[op];
    plan.signatures.push_back(variables[variable].values[choice[variable]]);
    if (stageEnds.empty() && !facts.isArgument(op))
      plan.stageEnds.push_back(op + 1);
  }
  if (!stageEnds.empty())
    plan.stageEnds = stageEnds;
  plan.stageEnds.back() = facts.groupOf.size();
  for (unsigned i = 0; i < factors.size(); ++i)
    addCopies(plan, i);
  std::sort(plan.kept.begin(), plan.kept.end());
  std::sort(plan.waiting.begin(), plan.waiting.end());
  return plan;
}
