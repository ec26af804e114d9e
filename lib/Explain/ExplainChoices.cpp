//===- ExplainChoices.cpp - the next best forms, and reasons --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainForms.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::explain;

Choice tandem::explain::describePlan(PlanFacts &facts, const Plan &plan) {
  const SearchProblem &problem = facts.problem;
  Choice choice;
  std::string error;
  std::optional<CostReport> report =
      cost::cost(problem, plan, facts.table, error);
  if (!report)
    return choice;
  TimeAnalysis analysis(problem, plan, *report, facts.table);
  const PlanTime &time = analysis.time;
  std::map<std::string, double> before =
      getExposedByKind(problem, facts.analysis);
  for (const auto &[kind, exposed] : getExposedByKind(problem, analysis)) {
    double grown = exposed - before[kind];
    if (grown > 1e-12 * time.seconds && grown > choice.grownSeconds) {
      choice.grown = kind;
      choice.grownSeconds = grown;
    }
  }
  choice.seconds = time.seconds;
  choice.computation = time.getComputation();
  choice.exposed = time.exposed;
  choice.peak = report->peak;
  choice.fits = report->peak <= problem.memoryLimit;
  return choice;
}

//===----------------------------------------------------------------------===//
// The next best
//===----------------------------------------------------------------------===//

void MetPlans::add(const std::vector<unsigned> &signatures,
                   const Choice &totals, const FormEntry &asked) {
  if (totals.seconds > 0)
    all.push_back({signatures, totals, &asked});
}

/// Whether no tensor has the form that it has in the other; of an entry that
/// asked for the plan, whether the first one that changed has another.
bool MetPlans::Candidate::differsFrom(const Candidate &other) const {
  if (isAsked)
    return choice.form != other.choice.form;
  for (size_t i = 0; i < layouts.size(); ++i)
    if (layouts[i] == other.layouts[i])
      return false;
  return true;
}

/// All that change the entry, the best first.
std::vector<MetPlans::Candidate>
MetPlans::getCandidates(const FormEntry &entry) const {
  auto getLayouts = [&](const std::vector<unsigned> &signatures) {
    std::vector<Layout> layouts;
    for (unsigned tensor : entry.tensors)
      layouts.push_back(facts.index.getProduced(signatures, tensor));
    return layouts;
  };
  Candidate plan{getLayouts(facts.plan.signatures), Choice(), false};
  plan.choice.form = entry.form;
  std::vector<Candidate> candidates;
  for (const Met &met : all) {
    Candidate candidate{getLayouts(met.signatures), met.totals,
                        met.asked == &entry};
    Choice &choice = candidate.choice;
    choice.form = entry.form;
    for (size_t i = candidate.layouts.size(); i-- > 0;) {
      if (candidate.layouts[i] != plan.layouts[i])
        choice.form = print(facts.problem, candidate.layouts[i]);
      choice.isMixed |= candidate.layouts[i] != candidate.layouts[0];
    }
    if (candidate.differsFrom(plan))
      candidates.push_back(std::move(candidate));
  }
  std::ranges::stable_sort(candidates, {}, [](const Candidate &candidate) {
    return getRank(candidate.choice);
  });
  return candidates;
}

std::vector<Choice> MetPlans::pick(const FormEntry &entry) const {
  std::vector<Candidate> candidates = getCandidates(entry);
  if (candidates.empty())
    return {};
  const Candidate &first = candidates.front();
  const Candidate *second = nullptr;
  for (const Candidate &candidate : candidates) {
    bool isFaster = candidate.choice.seconds < facts.report.seconds;
    bool tells = !candidate.choice.fits && isFaster && first.choice.fits &&
                 (!second || second->choice.fits);
    if (candidate.differsFrom(first) && (!second || tells))
      second = &candidate;
  }
  std::vector<Choice> choices = {first.choice};
  if (second)
    choices.push_back(second->choice);
  return choices;
}

//===----------------------------------------------------------------------===//
// Reasons
//===----------------------------------------------------------------------===//

/// What the next best plan would do more of.
static std::string getAdvantage(const PlanTime &time, const Choice &next) {
  double tolerance = 1e-9 * time.seconds;
  double computes = next.computation - time.getComputation(),
         exposes = next.exposed - time.exposed;
  std::string communication = next.grown.empty() ? "communication" : next.grown;
  if (computes > tolerance && exposes > tolerance)
    return "less computation and less exposed " + communication;
  return exposes > computes ? "less exposed " + communication
                            : "less computation";
}

std::string tandem::explain::getReason(const PlanFacts &facts,
                                       const FormEntry &entry) {
  const PlanTime &time = facts.analysis.time;
  if (entry.numForms == 1)
    return "the only form that it may have";
  if (entry.choices.empty())
    return "";
  double tolerance = 1e-9 * time.seconds;
  // A plan that is too large itself was not chosen for its memory.
  bool isTooLarge = facts.report.peak > facts.problem.memoryLimit;
  const Choice *best = nullptr, *larger = nullptr;
  for (const Choice &choice : entry.choices) {
    const Choice *&place = choice.fits || isTooLarge ? best : larger;
    if (!place || choice.seconds < place->seconds)
      place = &choice;
  }
  if (best && best->seconds < time.seconds - tolerance)
    return "no reason, " + best->form + " is faster: the plan is no optimum";
  if (larger && larger->seconds < time.seconds - tolerance)
    return larger->form + " is faster, but exceeds the memory limit";
  if (!best)
    return "nothing else that was tried fits in memory";
  if (best->seconds <= time.seconds + tolerance)
    return "others take as long";
  return getAdvantage(time, *best);
}
