//===- IlpBranch.cpp - programs without memory, smaller and smaller -------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IlpSearch.h"
#include <algorithm>
#include <cmath>

using namespace tandem::cost;
using namespace tandem::search;

IlpModel::IlpModel(const SearchProblem &problem, const IlpStages &stages,
                   const IlpNode &node, ChangeTable &table, IlpFreedom freedom,
                   double scale, std::function<bool()> isStopped)
    : allowed(node.allowed), forms(problem, stages, allowed, table, program,
                                   freedom, std::move(isStopped)),
      relaxer(program) {
  if (forms.isCut)
    return;
  time.emplace(forms, program, scale, node.pieces);
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

/// Forbids the signatures that a plan cheaper than the best one cannot have.
/// What they leave makes a program that is smaller and tighter, so that more
/// can go; where there are pieces, nodes that decide about them forbid more.
/// Returns the program, nothing if it was stopped.
std::unique_ptr<IlpModel> IlpSearch::narrow(const IlpStages &stages,
                                            IlpNode &node) {
  constexpr double kWorthwhile = 0.03;
  for (;;) {
    std::unique_ptr<IlpModel> model = makeModel(stages, node, getFreedom());
    if (!model || !result.plan)
      return model;
    double numAllowed = static_cast<double>(countAllowed(node.allowed));
    std::optional<unsigned> undecided;
    if (!relax(*model, node, undecided) || isClosed(node) ||
        !model->time->getPieces().empty() ||
        numAllowed - static_cast<double>(countAllowed(node.allowed)) <
            kWorthwhile * numAllowed)
      return model;
  }
}

/// Columns of what the node has and has not, of a program that has both.
static Expr getFixed(const IlpModel &model, const IlpNode &node) {
  Expr fixed;
  for (auto [slot, column] : model.time->getPieces())
    if (auto place = node.pieces.find(slot); place != node.pieces.end())
      fixed.push_back({column, place->second ? 1.0 : 0.0});
  for (unsigned op = 0; op < node.allowed.size(); ++op)
    for (unsigned s = 0; s < node.allowed[op].size(); ++s)
      if (model.allowed[op][s] && !node.allowed[op][s])
        fixed.push_back({model.forms.getColumn(op, s), 0});
  return fixed;
}

/// The slot whose piece the relaxation takes half.
static std::optional<unsigned> findHalf(const IlpModel &model,
                                        const IlpSolution &relaxation) {
  constexpr double kLeast = 1e-6;
  std::optional<unsigned> half;
  double farthest = kLeast;
  for (auto [slot, column] : model.time->getPieces())
    if (double value = relaxation.values[column];
        std::min(value, 1 - value) > farthest) {
      farthest = std::min(value, 1 - value);
      half = slot;
    }
  return half;
}

/// Relaxes again with what the relaxation breaks.
IlpSolution IlpSearch::relaxWithCuts(IlpModel &model, const IlpNode &node) {
  constexpr unsigned kMaxRounds = 5;
  for (unsigned round = 0;; ++round) {
    IlpSolution relaxation =
        model.relaxer.solve(getOptions(), getFixed(model, node));
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

/// Improves the node's bound and forbids by it. `undecided` is a slot to branch
/// on. False if the relaxation was not solved.
bool IlpSearch::relax(IlpModel &model, IlpNode &node,
                      std::optional<unsigned> &undecided) {
  IlpSolution relaxation = relaxWithCuts(model, node);
  // All plans of the node are dearer.
  if (relaxation.status == IlpSolution::Status::Infeasible)
    node.bound = result.plan->cost;
  if (relaxation.status != IlpSolution::Status::Optimal)
    return relaxation.status == IlpSolution::Status::Infeasible;
  takeBound(relaxation.objective, node);
  undecided = findHalf(model, relaxation);
  forbidDear(model.forms, relaxation, node);
  return true;
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

/// Nodes that decide about all pieces that matter, or as many as are
/// affordable, and those whose plans are dearer than the best one.
std::vector<IlpNode> IlpSearch::branch(IlpModel &model, IlpNode root) {
  constexpr size_t kMaxNodes = 64;
  std::vector<IlpNode> open, leaves;
  open.push_back(std::move(root));
  while (!open.empty()) {
    auto least = std::min_element(
        open.begin(), open.end(),
        [](const IlpNode &a, const IlpNode &b) { return a.bound < b.bound; });
    IlpNode node = std::move(*least);
    open.erase(least);
    std::optional<unsigned> undecided;
    if (!isStopped())
      relax(model, node, undecided);
    if (!undecided || isClosed(node) ||
        open.size() + leaves.size() >= kMaxNodes) {
      leaves.push_back(std::move(node));
      continue;
    }
    for (bool takes : {false, true})
      open.emplace_back(node).pieces[*undecided] = takes;
  }
  return leaves;
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

bool IlpSearch::searchLeaves(const IlpStages &stages,
                             std::vector<IlpNode> leaves, IlpNode &root) {
  auto getLeast = [&](const IlpNode *without) {
    double least = kInfinity;
    for (const IlpNode &leaf : leaves)
      if (&leaf != without)
        least = std::min(least, leaf.bound);
    return least;
  };
  for (IlpNode &leaf : leaves) {
    boundOfRest = getLeast(&leaf);
    if (isClosed(leaf) || isStopped())
      continue;
    std::unique_ptr<IlpModel> model = makeModel(stages, leaf, getFreedom());
    if (model && !solve(*model, leaf))
      return false;
  }
  root.bound = std::max(root.bound, getLeast(nullptr));
  return true;
}

bool IlpSearch::searchWithoutLimit(const IlpStages &stages, IlpNode &root) {
  std::unique_ptr<IlpModel> model = narrow(stages, root);
  if (coversAll)
    boundOfAll = root.bound;
  if (!model || isClosed(root) || (result.plan && isStopped()))
    return true;
  if (!result.plan || model->time->getPieces().empty())
    return solve(*model, root);
  std::vector<IlpNode> leaves = branch(*model, root);
  model.reset();
  return searchLeaves(stages, std::move(leaves), root);
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
  if (!result.plan || problem.getNumStrands() == 1 || isClosed({{}, {}, bound}))
    return;
  IlpNode root{{}, getStrandsOfBest(stages), bound};
  hasGivenStrands = true;
  searchWithoutLimit(stages, root);
  hasGivenStrands = false;
  result.strandsBound = getProven(*result.plan, root.bound);
}
