//===- IlpNarrow.cpp - programs without memory, smaller and smaller -------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IlpSearch.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

IlpModel::IlpModel(const SearchProblem &problem, const IlpStages &stages,
                   const IlpNode &node, ChangeTable &table, IlpFreedom freedom,
                   double scale, std::function<bool()> isStopped)
    : allowed(node.allowed), forms(problem, stages, allowed, table, program,
                                   freedom, std::move(isStopped)) {
  if (forms.isCut)
    return;
  time.emplace(forms, program, scale);
  time->build();
}

/// Nothing if it was stopped.
std::unique_ptr<IlpModel> IlpSearch::makeModel(const IlpStages &stages,
                                               const IlpNode &node,
                                               IlpFreedom freedom) {
  auto model =
      std::make_unique<IlpModel>(problem, stages, node, table, freedom, scale,
                                 [this] { return isStopped(); });
  if (model->forms.isCut)
    return nullptr;
  for (const IlpCut &cut : cuts)
    model->time->addCut(cut);
  if (node.allowed == allowAll(problem))
    coversAll = isWhole(model->forms);
  return model;
}

//===----------------------------------------------------------------------===//
// Relaxations
//===----------------------------------------------------------------------===//

/// Forbids signatures with which a plan costs more than the best one, by the
/// relaxation's reduced costs. Returns how many.
unsigned IlpSearch::forbidDear(const IlpForms &forms,
                               const IlpSolution &relaxation,
                               IlpNode &node) const {
  double most = result.plan->cost * scale * (1 + kIlpTolerance);
  unsigned count = 0;
  for (unsigned op = 0; op < node.allowed.size(); ++op)
    for (unsigned s = 0; s < node.allowed[op].size(); ++s)
      if (node.allowed[op][s] &&
          relaxation.objective +
                  relaxation.reducedCosts[forms.getColumn(op, s)] >
              most) {
        node.allowed[op][s] = false;
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

/// Bounds the node, and forbids the signatures that a plan cheaper than the
/// best one cannot have. What they leave makes a program that is smaller and
/// tighter, so that more can go. Returns the program, nothing if it was
/// stopped.
std::unique_ptr<IlpModel> IlpSearch::narrow(const IlpStages &stages,
                                            IlpNode &node) {
  constexpr double kWorthwhile = 0.03;
  for (;;) {
    std::unique_ptr<IlpModel> model = makeModel(stages, node, getFreedom());
    if (!model || !result.plan)
      return model;
    IlpSolution relaxation = relaxWithCuts(*model);
    // All plans of the node are dearer.
    if (relaxation.status == IlpSolution::Status::Infeasible)
      node.bound = result.plan->cost;
    if (relaxation.status != IlpSolution::Status::Optimal)
      return model;
    takeBound(relaxation.objective, node);
    double numAllowed = static_cast<double>(countAllowed(node.allowed));
    unsigned numForbidden = forbidDear(model->forms, relaxation, node);
    if (isClosed(node) || numForbidden < kWorthwhile * numAllowed)
      return model;
  }
}

/// By the solver. False if the optimum of the node does not fit, of which the
/// program does not know.
bool IlpSearch::solve(IlpModel &model, IlpNode &node) {
  for (unsigned round = 0; round < kMaxIlpRounds; ++round) {
    IlpSolution solution = model.program.solve(getOptions());
    bool isOpen = takeSolution(model.forms, solution, node);
    bool isInfeasible = solution.status == IlpSolution::Status::Infeasible;
    if (isInfeasible && result.plan)
      node.bound = result.plan->cost * (1 - options.gap);
    if (coversAll && round == 0)
      boundOfAll = node.bound;
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

bool IlpSearch::searchWithoutLimit(const IlpStages &stages, IlpNode &root) {
  std::unique_ptr<IlpModel> model = narrow(stages, root);
  if (coversAll)
    boundOfAll = root.bound;
  if (!model || isClosed(root) || (result.plan && isStopped()))
    return true;
  return solve(*model, root);
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
  if (!result.plan || problem.getNumStrands() == 1 || isClosed({{}, bound}))
    return;
  IlpNode root{getStrandsOfBest(stages), bound};
  hasGivenStrands = true;
  searchWithoutLimit(stages, root);
  hasGivenStrands = false;
  result.strandsBound = getProven(*result.plan, root.bound);
}
