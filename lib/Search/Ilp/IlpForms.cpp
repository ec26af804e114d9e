//===- IlpForms.cpp - signatures and copies as columns --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IlpNetwork.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

IlpStages::IlpStages(const SearchProblem &problem, std::vector<unsigned> given)
    : ends(std::move(given)), stageOf(problem.operators.size()),
      firstUpdate(ends.size()) {
  unsigned begin = 0;
  for (unsigned stage = 0; stage < ends.size(); ++stage) {
    for (unsigned op = begin; op < ends[stage]; ++op)
      stageOf[op] = stage;
    if (problem.operators[ends[stage] - 1].pass == Pass::Update)
      firstUpdate = std::min(firstUpdate, stage);
    begin = ends[stage];
  }
}

std::vector<unsigned>
tandem::search::getFinestStages(const SearchProblem &problem) {
  std::vector<unsigned> ends;
  bool hasWork = false;
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    if (problem.operators[op].isArgument())
      continue;
    if (hasWork)
      ends.push_back(op);
    hasWork = true;
  }
  ends.push_back(problem.operators.size());
  return ends;
}

//===----------------------------------------------------------------------===//
// Signatures
//===----------------------------------------------------------------------===//

IlpForms::IlpForms(const SearchProblem &problem, const IlpStages &stages,
                   const IlpChoices &allowed, ChangeTable &table,
                   IntegerProgram &program, IlpFreedom freedom,
                   std::function<bool()> isStopped)
    : freedom(freedom), isStopped(std::move(isStopped)), problem(problem),
      rules(getRules(problem.accounting)), stages(stages),
      tensors(problem.tensors.size()), allowed(allowed), program(program),
      firstColumn(problem.operators.size()) {
  addsUp = search::addsUp(problem, allowed);
  addSignatures();
  addAhead();
  addTensors();
  for (unsigned i = 0; i < tensors.size(); ++i) {
    isCut |= this->isStopped();
    if (isCut)
      return;
    IlpTensor &tensor = tensors[i];
    groupPasses(tensor);
    networks.push_back(std::make_unique<IlpNetwork>(*this, program, table, i));
    hasSourcesOfWaiting |= networks.back()->hasSourcesOfWaiting();
  }
}

IlpForms::~IlpForms() = default;

bool IlpForms::isArgument(unsigned op) const {
  return rules.hasArguments && problem.operators[op].isArgument();
}

/// No stage can have several strands or run ahead, and there is one queue.
/// Stages that run passes have two strands.
bool tandem::search::addsUp(const SearchProblem &problem,
                            const IlpChoices &allowed) {
  bool canOverlap = false;
  for (unsigned op = 0; op < problem.operators.size(); ++op)
    for (unsigned s = 0; s < allowed[op].size(); ++s)
      canOverlap |=
          allowed[op][s] && problem.isOverTime(problem.getSignatures(op)[s]);
  return !getRules(problem.accounting).hasStagePasses() &&
         (problem.getNumStrands() == 1 || !canOverlap) && !problem.hasAgain() &&
         problem.getNumQueues() <= 1;
}

/// Tied operators share columns.
void IlpForms::addSignatures() {
  for (const std::vector<unsigned> &group : problem.getTieGroups()) {
    unsigned first = group.front();
    Expr sum;
    for (size_t i = 0; i < problem.getSignatures(first).size(); ++i)
      sum.push_back({allowed[first][i] ? program.addBinary()
                                       : program.addContinuous(0, 0),
                     1});
    for (unsigned op : group)
      firstColumn[op] = sum.empty() ? -1 : sum.front().column;
    program.addRow(sum, 1, 1);
    if (sum.size() > 1)
      for (Term term : sum)
        decisions.push_back(term.column);
  }
}

/// Arguments are there before the first stage, which has nothing to wait for.
void IlpForms::addAhead() {
  aheadColumns.assign(stages.size(), -1);
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    int &column = aheadColumns[stages.stageOf[op]];
    if (!problem.operators[op].isAgain || stages.stageOf[op] == 0 ||
        column >= 0)
      continue;
    column = program.addBinary();
    decisions.push_back(column);
  }
}

static void addChoice(std::vector<IlpLayout> &layouts, const Layout &layout,
                      int column) {
  for (IlpLayout &entry : layouts)
    if (entry.layout == layout) {
      entry.chosen.push_back({column, 1});
      return;
    }
  layouts.push_back({layout, {{column, 1}}});
}

void IlpForms::addTensors() {
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    const Operator &info = problem.operators[op];
    const SignatureSet &signatures = problem.getSignatures(op);
    for (size_t i = 0; i < info.operands.size(); ++i) {
      IlpUse use{op,
                 static_cast<unsigned>(i),
                 stages.stageOf[op],
                 info.pass,
                 {},
                 {},
                 {},
                 {},
                 {}};
      for (unsigned s = 0; s < signatures.size(); ++s)
        if (allowed[op][s])
          addChoice(use.wanted, signatures[s].operands[i], getColumn(op, s));
      tensors[info.operands[i]].uses.push_back(std::move(use));
    }
    for (size_t i = 0; i < info.results.size(); ++i) {
      IlpTensor &tensor = tensors[info.results[i]];
      tensor.producer = op;
      tensor.stage = isArgument(op) ? -1 : static_cast<int>(stages.stageOf[op]);
      for (unsigned s = 0; s < signatures.size(); ++s)
        if (allowed[op][s])
          addChoice(tensor.produced, signatures[s].results[i],
                    getColumn(op, s));
    }
  }
}

bool IlpForms::isSum(const Layout &produced, const Layout &wanted,
                     Pass pass) const {
  int axis = problem.getTimeAxis();
  return pass == Pass::Update && axis >= 0 && produced[axis] == kReduce &&
         wanted[axis] == kFull;
}

Layout IlpForms::getBase(const Layout &produced, const Layout &wanted,
                         Pass pass) const {
  Layout base = produced;
  if (isSum(produced, wanted, pass))
    base[problem.getTimeAxis()] = kFull;
  return base;
}

void IlpForms::groupPasses(IlpTensor &tensor) {
  for (unsigned i = 0; i < tensor.uses.size(); ++i) {
    const IlpUse &use = tensor.uses[i];
    if (tensor.passes.empty() || tensor.passes.back().pass != use.pass) {
      tensor.passes.emplace_back();
      tensor.passes.back().pass = use.pass;
    }
    IlpPass &pass = tensor.passes.back();
    pass.uses.push_back(i);
    pass.lastStage = use.stage;
  }
}

bool IlpForms::canWait(unsigned index, Pass pass) const {
  const IlpTensor &tensor = tensors[index];
  return pass == Pass::Update && tensor.stage >= 0 &&
         problem.operators[tensor.producer].pass != Pass::Update;
}

//===----------------------------------------------------------------------===//
// A solution
//===----------------------------------------------------------------------===//

Plan IlpForms::getPlan(const IlpSolution &solution) const {
  Plan plan;
  plan.accounting = problem.accounting;
  plan.stageEnds = stages.ends;
  auto isSet = [&](int column) { return solution.values[column] > 0.5; };
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    unsigned chosen = 0;
    for (unsigned s = 0; s < problem.getSignatures(op).size(); ++s)
      if (isSet(getColumn(op, s)))
        chosen = s;
    plan.signatures.push_back(chosen);
  }
  for (unsigned stage = 0; stage < stages.size(); ++stage)
    if (aheadColumns[stage] >= 0 && isSet(aheadColumns[stage]))
      plan.ahead.push_back(stages.ends[stage - 1]);
  for (const auto &network : networks)
    network->read(solution, plan);
  for (std::vector<Copy> *copies : {&plan.kept, &plan.waiting}) {
    std::sort(copies->begin(), copies->end());
    copies->erase(std::unique(copies->begin(), copies->end()), copies->end());
  }
  return plan;
}

void IlpForms::forbid(const IlpSolution &solution) {
  Expr row;
  double least = 1;
  for (int column : decisions) {
    bool isSet = solution.values[column] > 0.5;
    row.push_back({column, isSet ? -1.0 : 1.0});
    least -= isSet;
  }
  program.addRow(row, least, kInfinity);
}
