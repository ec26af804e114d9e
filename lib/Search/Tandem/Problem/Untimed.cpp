//===- Untimed.cpp - a problem without its time axis ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Problem/Untimed.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

Plan UntimedProblem::lift(const Plan &plan) const {
  // `full` stands in a layout beyond its axes, so that copies stay as they are.
  Plan lifted;
  lifted.stageEnds = plan.stageEnds;
  lifted.kept = plan.kept;
  lifted.waiting = plan.waiting;
  lifted.ahead = plan.ahead;
  for (unsigned op = 0; op < plan.signatures.size(); ++op)
    lifted.signatures.push_back(
        origins[problem.operators[op].signatureSet][plan.signatures[op]]);
  return lifted;
}

std::optional<Plan> UntimedProblem::lower(const Plan &plan) const {
  Plan lowered;
  lowered.stageEnds = plan.stageEnds;
  lowered.kept = plan.kept;
  lowered.waiting = plan.waiting;
  lowered.ahead = plan.ahead;
  for (unsigned op = 0; op < plan.signatures.size(); ++op) {
    const std::vector<unsigned> &own =
        origins[problem.operators[op].signatureSet];
    auto place = std::lower_bound(own.begin(), own.end(), plan.signatures[op]);
    if (place == own.end() || *place != plan.signatures[op])
      return std::nullopt;
    lowered.signatures.push_back(place - own.begin());
  }
  return lowered;
}

std::optional<UntimedProblem>
tandem::search::dropTime(const SearchProblem &problem) {
  if (problem.getTimeAxis() < 0)
    return std::nullopt;
  UntimedProblem untimed;
  untimed.problem = problem;
  untimed.problem.axes.pop_back();
  for (SignatureSet &set : untimed.problem.signatureSets) {
    std::vector<unsigned> &origin = untimed.origins.emplace_back();
    SignatureSet rest;
    for (unsigned i = 0; i < set.size(); ++i)
      if (!problem.isOverTime(set[i])) {
        origin.push_back(i);
        rest.push_back(set[i]);
      }
    if (rest.empty())
      return std::nullopt;
    set = std::move(rest);
  }
  // Tied operators take signatures of one index.
  for (auto [first, second] : problem.ties)
    if (untimed.origins[problem.operators[first].signatureSet] !=
        untimed.origins[problem.operators[second].signatureSet])
      return std::nullopt;
  return untimed;
}
