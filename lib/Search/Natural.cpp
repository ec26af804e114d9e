//===- Natural.cpp - owners of backward operators -------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Search/Natural.h"
#include "tandem/Cost/Changes.h"
#include "tandem/Cost/Cost.h"
#include <algorithm>
#include <set>

using namespace tandem;
using namespace tandem::cost;

//===----------------------------------------------------------------------===//
// Which forward operator a backward operator belongs to
//===----------------------------------------------------------------------===//

/// The last forward operator that reads or makes what `op` reads.
static int findForwardReader(const SearchProblem &problem, const Operator &op,
                             const std::vector<std::vector<unsigned>> &readers,
                             const std::vector<unsigned> &producers) {
  int last = -1;
  auto include = [&](unsigned other) {
    const Operator &candidate = problem.operators[other];
    if (candidate.kind == Operator::Kind::Compute &&
        candidate.pass == Pass::Forward)
      last = std::max(last, int(other));
  };
  for (unsigned tensor : op.operands) {
    include(producers[tensor]);
    for (unsigned reader : readers[tensor])
      include(reader);
  }
  return last;
}

void search::attachBackward(SearchProblem &problem) {
  std::vector<std::vector<unsigned>> readers(problem.tensors.size());
  for (unsigned index = 0; index < problem.operators.size(); ++index)
    for (unsigned tensor : problem.operators[index].operands)
      readers[tensor].push_back(index);
  std::vector<unsigned> producers = problem.getProducers();
  for (Operator &op : problem.operators) {
    if (op.kind != Operator::Kind::Compute || op.pass == Pass::Forward)
      continue;
    int attached = findForwardReader(problem, op, readers, producers);
    for (unsigned tensor : op.operands) {
      const Operator &producer = problem.operators[producers[tensor]];
      if (producer.pass != Pass::Backward || producer.attachedTo < 0)
        continue;
      attached = attached < 0 ? producer.attachedTo
                              : std::min(attached, producer.attachedTo);
    }
    op.attachedTo = attached;
  }
}

//===----------------------------------------------------------------------===//
// Stages of given signatures
//===----------------------------------------------------------------------===//

/// A cut before every operator, or only where an operator takes a copy of what
/// its stage has made, and before the updates.
static std::vector<unsigned> cutStages(const SearchProblem &problem,
                                       const Plan &plan, bool isFine) {
  std::vector<unsigned> ends;
  std::vector<int> madeIn(problem.tensors.size(), -1);
  std::vector<Layout> produced(problem.tensors.size());
  std::set<Copy> copies;
  Pass last = Pass::Forward;
  for (unsigned index = 0; index < problem.operators.size(); ++index) {
    const Operator &op = problem.operators[index];
    const Signature &signature =
        problem.getSignatures(index)[plan.signatures[index]];
    int stage = ends.size();
    bool cuts = isFine && !op.isArgument() && op.kind != Operator::Kind::Output;
    cuts |= op.pass == Pass::Update && last != Pass::Update;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      unsigned tensor = op.operands[i];
      const Layout &layout = signature.operands[i];
      cuts |= layout != produced[tensor] && !layout.isAbsent() &&
              copies.insert({tensor, layout, op.pass}).second &&
              madeIn[tensor] == stage;
    }
    if (cuts && index > 0)
      ends.push_back(index);
    last = op.pass;
    for (size_t i = 0; i < op.results.size(); ++i) {
      madeIn[op.results[i]] = op.isArgument() ? -1 : int(ends.size());
      produced[op.results[i]] = signature.results[i];
    }
  }
  ends.push_back(problem.operators.size());
  return ends;
}

/// Copies of what the backward pass made, for the updates: all of them wait.
static std::vector<Copy> findGradientCopies(const SearchProblem &problem,
                                            const Plan &plan,
                                            ChangeTable &table) {
  std::set<Copy> copies;
  std::vector<Layout> made(problem.tensors.size());
  std::vector<const Operator *> makers(problem.tensors.size());
  int time = problem.getTimeAxis();
  for (unsigned index = 0; index < problem.operators.size(); ++index) {
    const Operator &op = problem.operators[index];
    const Signature &signature =
        problem.getSignatures(index)[plan.signatures[index]];
    for (size_t i = 0; i < op.operands.size(); ++i) {
      unsigned tensor = op.operands[i];
      const Operator &from = *makers[tensor];
      if (op.pass != Pass::Update || from.pass == Pass::Update ||
          from.kind != Operator::Kind::Compute)
        continue;
      Layout base = made[tensor], layout = signature.operands[i];
      if (time >= 0 && base[time] == kReduce && layout[time] == kFull)
        base[time] = kFull;
      const ChangeCost &change = table.getCost(tensor, base, layout);
      if (layout != base && !layout.isAbsent() && change.isPossible &&
          !change.joins)
        copies.insert({tensor, layout, Pass::Update});
    }
    for (size_t i = 0; i < op.results.size(); ++i) {
      made[op.results[i]] = signature.results[i];
      makers[op.results[i]] = &op;
    }
  }
  return {copies.begin(), copies.end()};
}

std::optional<Plan> search::completePlan(const SearchProblem &problem,
                                         Plan plan, std::string &error) {
  ChangeTable table(problem);
  std::vector<Copy> gradients = findGradientCopies(problem, plan, table);
  std::optional<Plan> best;
  for (bool isFine : {false, true})
    for (bool waits : {true, false}) {
      plan.stageEnds = cutStages(problem, plan, isFine);
      plan.waiting = waits ? gradients : std::vector<Copy>();
      auto report = cost::cost(problem, plan, table, error);
      if (!report || (best && best->cost <= report->seconds))
        continue;
      best = plan;
      best->cost = report->seconds;
      best->peak = report->peak;
    }
  return best;
}

void search::runAhead(const SearchProblem &problem, Plan &plan) {
  ChangeTable table(problem);
  std::string error;
  for (unsigned stage : listAheadable(problem, plan, table)) {
    Plan other = plan;
    other.ahead.push_back(stage);
    auto report = cost::cost(problem, other, table, error);
    if (!report || report->peak > problem.memoryLimit ||
        report->seconds >= plan.cost)
      continue;
    plan = std::move(other);
    plan.cost = report->seconds;
    plan.peak = report->peak;
  }
}
