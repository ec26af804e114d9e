//===- Explain.cpp - explanation of a plan --------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Explain/Explain.h"
#include "ExplainForms.h"
#include "tandem/Search/Search.h"
#include <algorithm>
#include <map>

using namespace tandem::cost;
using namespace tandem::explain;
using namespace tandem::search;

static std::string printAxes(const SearchProblem &problem) {
  std::string text;
  for (const Axis &axis : problem.axes)
    text +=
        (text.empty() ? "" : ",") + axis.name + "=" + std::to_string(axis.size);
  return text;
}

//===----------------------------------------------------------------------===//
// All together
//===----------------------------------------------------------------------===//

/// What updates make takes the forms of parameters and gradients.
static bool isAsked(const ExplainOptions &options, const FormEntry &entry) {
  return options.numChoices > 0 && entry.role != Role::Update &&
         entry.numForms > 1;
}

/// Asks first and answers then: a plan that was met for one entry may be the
/// best for another.
static void addChoices(PlanFacts &facts, const ExplainOptions &options,
                       std::vector<FormEntry> &entries) {
  bool isByStages = isSearchedByStages(facts.problem);
  bool isSearched =
      isByStages || facts.problem.operators.size() <= options.maxSearched;
  SearchEnd end(options.timeLimit, [&options](double, double, double) {
    return !options.endsSearch || !options.endsSearch();
  });
  ChoiceFinder estimate;
  MetPlans plans(facts);
  std::map<Role, unsigned> counts;
  for (FormEntry &entry : entries) {
    if (!isAsked(options, entry)) {
      entry.why = entry.role == Role::Update
                      ? "not asked: what updates make takes the forms of "
                        "parameters and gradients"
                      : "not asked";
      continue;
    }
    // The largest of each role in full; gradients mostly follow from the rest.
    unsigned numFull = entry.role == Role::Gradient ? options.numChoices / 2
                                                    : options.numChoices;
    Effort effort =
        counts[entry.role]++ < numFull ? Effort::Full : Effort::Brief;
    bool wasLookedAt = isSearched && searchChoices(facts, end, entry, plans);
    if (!isByStages && (!isSearched || end.isOver())) {
      if (!estimate)
        estimate = makeEstimator(facts, end);
      wasLookedAt |= estimate(entry, effort, plans);
    }
    entry.why = wasLookedAt
                    ? "no other form was found that what lies around it takes"
                    : "not looked at: the searches had to end before";
  }
  for (FormEntry &entry : entries) {
    if (isAsked(options, entry))
      entry.choices = plans.pick(entry);
    if (std::string why = getReason(facts, entry); !why.empty())
      entry.why = std::move(why);
  }
}

std::optional<Explanation>
tandem::explain::explain(const SearchProblem &problem, const Plan &plan,
                         const ExplainOptions &options, std::string &error) {
  std::unique_ptr<PlanFacts> facts = PlanFacts::make(problem, plan, error);
  if (!facts)
    return std::nullopt;
  Explanation result;
  result.accounting = getAccountingName(problem.accounting);
  result.mesh = printAxes(problem);
  result.time = facts->analysis.time;
  result.lowerBound = plan.lowerBound;
  result.isOptimal = plan.isOptimal;
  result.collectives = getCollectives(*facts);
  result.exposures = getExposures(*facts);
  if (!addMemory(*facts, options, result, error))
    return std::nullopt;
  result.forms = getForms(*facts);
  addChoices(*facts, options, result.forms);
  return result;
}

//===----------------------------------------------------------------------===//
// Tensors that nothing splits
//===----------------------------------------------------------------------===//

static std::string getShapeText(const Tensor &tensor) {
  std::string text;
  for (int64_t size : tensor.shape)
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text.empty() ? "scalar" : text;
}

std::string tandem::explain::findReplicated(const SearchProblem &problem,
                                            const Plan &plan, int64_t bytes) {
  bool isOne = true;
  for (const Axis &axis : problem.axes)
    isOne &= axis.isTime || axis.size == 1;
  if (isOne)
    return "";
  TensorIndex index(problem);
  unsigned largest = 0, count = 0;
  int64_t most = bytes;
  for (unsigned tensor = 0; tensor < problem.tensors.size(); ++tensor) {
    const Layout &layout = index.getProduced(plan.signatures, tensor);
    bool isSplit = false;
    for (unsigned axis = 0; axis < problem.axes.size(); ++axis)
      isSplit |= !problem.axes[axis].isTime && layout[axis] != kFull &&
                 layout[axis] != kReplicate;
    int64_t held = problem.getBytes(tensor, layout);
    if (isSplit || held <= bytes)
      continue;
    ++count;
    if (held > most) {
      most = held;
      largest = tensor;
    }
  }
  if (count == 0)
    return "";
  Names names(problem);
  const std::string &location = names.getLocation(largest);
  return "tensor '" + names.getLabel(largest) + "' (" +
         getShapeText(problem.tensors[largest]) + ")" +
         (location.empty() ? "" : " at " + location) +
         " is left whole on all devices with " + std::to_string(most) +
         " bytes, expected at most " + std::to_string(bytes) +
         (count > 1 ? "; " + std::to_string(count) + " such tensors in all"
                    : "") +
         "; pin a form that splits it, or take another mesh";
}
