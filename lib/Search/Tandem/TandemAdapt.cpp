//===- TandemAdapt.cpp - a plan's decisions for other signatures ----------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TandemAdapt.h"
#include <algorithm>
#include <iterator>

using namespace tandem::cost;
using namespace tandem::search;

static std::vector<Copy> subtract(const std::vector<Copy> &all,
                                  const std::vector<Copy> &without) {
  std::vector<Copy> rest;
  std::set_difference(all.begin(), all.end(), without.begin(), without.end(),
                      std::back_inserter(rest));
  return rest;
}

void PlanAdapter::setModel(const Plan &plan) {
  stageEnds = plan.stageEnds;
  Plan all;
  all.signatures = plan.signatures;
  dropped.clear();
  hurried.clear();
  if (!forms.choose(all, true, true))
    return;
  dropped = subtract(all.kept, plan.kept);
  hurried = subtract(all.waiting, plan.waiting);
}

/// The model's cuts, and one before each operator that wants a copy whose
/// source the open stage makes itself.
void PlanAdapter::placeCuts(Plan &plan) const {
  size_t next = 0;
  unsigned begin = 0;
  for (unsigned op = 0; op < facts.problem.operators.size(); ++op) {
    while (next < stageEnds.size() && stageEnds[next] <= op)
      begin = stageEnds[next++];
    for (unsigned i = forms.firstNeed[op]; i < forms.firstNeed[op + 1]; ++i)
      if (!forms.needs[i].getChange(begin, facts.numStrands)) {
        begin = op;
        if (op > 0 && (plan.stageEnds.empty() || plan.stageEnds.back() < op))
          plan.stageEnds.push_back(op);
      }
    if (next < stageEnds.size() && stageEnds[next] == op + 1)
      plan.stageEnds.push_back(op + 1);
  }
}

std::optional<Plan>
PlanAdapter::adapt(const std::vector<unsigned> &signatures) {
  Plan plan;
  plan.signatures = signatures;
  if (!forms.choose(plan, true, true))
    return std::nullopt;
  plan.kept = subtract(plan.kept, dropped);
  plan.waiting = subtract(plan.waiting, hurried);
  if (!forms.analyse(plan))
    return std::nullopt;
  placeCuts(plan);
  return plan;
}
