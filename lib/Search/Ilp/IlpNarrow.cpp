//===- IlpNarrow.cpp - narrowing of integer programs ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IlpSearch.h"
#include <algorithm>
#include <utility>

using namespace tandem::cost;
using namespace tandem::search;

IlpModel::IlpModel(const SearchProblem &problem, const IlpStages &stages,
                   IlpChoices given, ChangeTable &table, IlpFreedom freedom,
                   double scale, std::function<bool()> isStopped)
    : allowed(std::move(given)), forms(problem, stages, allowed, table, program,
                                       freedom, std::move(isStopped)) {
  if (forms.isCut)
    return;
  time.emplace(forms, program, scale);
  time->build();
}

/// Nothing if it was stopped.
std::unique_ptr<IlpModel> IlpSearch::makeModel(const IlpStages &stages,
                                               IlpFreedom freedom) {
  auto model =
      std::make_unique<IlpModel>(problem, stages, allowed, table, freedom,
                                 scale, [this] { return isStopped(); });
  if (model->forms.isCut)
    return nullptr;
  for (const IlpCut &cut : cuts)
    model->time->addCut(cut);
  if (allowed == allowAll(problem))
    coversAll = isWhole(model->forms);
  return model;
}

//===----------------------------------------------------------------------===//
// Relaxations
//===----------------------------------------------------------------------===//

/// Forbids signatures with which a plan costs more than the best one, by the
/// relaxation's reduced costs. Returns how many.
unsigned IlpSearch::forbidDear(const IlpForms &forms,
                               const IlpSolution &relaxation) {
  double most = result.plan->cost * scale * (1 + kIlpTolerance);
  unsigned count = 0;
  for (unsigned op = 0; op < allowed.size(); ++op)
    for (unsigned s = 0; s < allowed[op].size(); ++s)
      if (allowed[op][s] &&
          relaxation.objective +
                  relaxation.reducedCosts[forms.getColumn(op, s)] >
              most) {
        allowed[op][s] = false;
        ++count;
      }
  return count;
}

static size_t countAllowed(const IlpChoices &allowed) {
  size_t count = 0;
  for (const std::vector<bool> &choices : allowed)
    count += std::count(choices.begin(), choices.end(), true);
  return count;
}

/// Relaxes again with what the relaxation breaks.
IlpSolution IlpSearch::relaxWithCuts(IlpModel &model) {
  constexpr unsigned kMaxRounds = 5;
  for (unsigned round = 0;; ++round) {
    IlpSolution relaxation = model.program.relax(getOptions());
    if (relaxation.status != IlpSolution::Status::Optimal ||
        round == kMaxRounds)
      return relaxation;
    std::vector<IlpCut> found = model.time->findCuts(relaxation);
    if (found.empty())
      return relaxation;
    for (IlpCut &cut : found) {
      model.time->addCut(cut);
      cuts.push_back(std::move(cut));
    }
  }
}

/// Bounds the plans, and forbids the signatures that a plan cheaper than the
/// best one cannot have. What they leave makes a program that is smaller and
/// tighter, so that more can go. Returns the program, nothing if it was
/// stopped.
std::unique_ptr<IlpModel> IlpSearch::narrow(const IlpStages &stages) {
  constexpr double kWorthwhile = 0.03;
  for (;;) {
    std::unique_ptr<IlpModel> model = makeModel(stages, getFreedom());
    if (!model || !result.plan)
      return model;
    IlpSolution relaxation = relaxWithCuts(*model);
    // All plans are dearer.
    if (relaxation.status == IlpSolution::Status::Infeasible)
      bound = result.plan->cost;
    if (relaxation.status != IlpSolution::Status::Optimal)
      return model;
    takeBound(relaxation.objective);
    double numAllowed = static_cast<double>(countAllowed(allowed));
    unsigned numForbidden = forbidDear(model->forms, relaxation);
    if (isClosed() || numForbidden < kWorthwhile * numAllowed)
      return model;
  }
}

/// By the solver. False if the optimum does not fit, of which the program does
/// not know.
bool IlpSearch::solve(IlpModel &model) {
  for (unsigned round = 0; round < kMaxIlpRounds; ++round) {
    IlpSolution solution = model.program.solve(getOptions());
    bool isOpen = takeSolution(model.forms, solution);
    bool isInfeasible = solution.status == IlpSolution::Status::Infeasible;
    if (isInfeasible && result.plan)
      bound = result.plan->cost * (1 - options.gap);
    if (coversAll && round == 0)
      boundOfAll = bound;
    if (isInfeasible && !result.plan) {
      // All plans that are left are too large.
      result.isInfeasible = coversAll && round == 0;
      explainInfeasible(model.forms);
    }
    bool endsHere = isTooLarge && model.forms.freedom != IlpFreedom::None;
    if (!isOpen || endsHere)
      return !isOpen;
    model.forms.forbid(solution);
  }
  return true;
}

bool IlpSearch::searchWithoutLimit(const IlpStages &stages) {
  std::unique_ptr<IlpModel> model = narrow(stages);
  if (coversAll)
    boundOfAll = bound;
  if (!model || isClosed() || (result.plan && isStopped()))
    return true;
  return solve(*model);
}

/// Signatures over time only of stages in which the best plan has some.
IlpChoices IlpSearch::getStrandsOfBest(const IlpStages &stages) const {
  std::vector<bool> isOverTime(stages.size());
  auto isOver = [&](unsigned op, unsigned signature) {
    return problem.isOverTime(problem.getSignatures(op)[signature]);
  };
  for (unsigned op = 0; op < problem.operators.size(); ++op)
    if (isOver(op, result.plan->signatures[op]))
      isOverTime[stages.stageOf[op]] = true;
  IlpChoices choices = allowed;
  for (unsigned op = 0; op < choices.size(); ++op)
    for (unsigned s = 0; s < choices[op].size(); ++s)
      if (isOver(op, s) && !isOverTime[stages.stageOf[op]])
        choices[op][s] = false;
  return choices;
}

void IlpSearch::searchStrands(const IlpStages &stages) {
  if (!result.plan || problem.getNumStrands() == 1 || isClosed())
    return;
  IlpChoices all = std::exchange(allowed, getStrandsOfBest(stages));
  hasGivenStrands = true;
  searchWithoutLimit(stages);
  hasGivenStrands = false;
  result.strandsBound = getProven(*result.plan, bound);
  allowed = std::move(all);
  bound = 0;
}
