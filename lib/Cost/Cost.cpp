//===- Cost.cpp - the cost of a plan --------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Cost/Cost.h"
#include "HidupCost.h"
#include "TimeLine.h"
#include "tandem/Cost/Holdings.h"
#include <algorithm>
#include <tuple>

using namespace tandem::cost;

namespace {
/// Bytes that are held per stage.
class StageMemory {
public:
  StageMemory(const SearchProblem &problem, const Plan &plan,
              const Placement &placement)
      : problem(problem), plan(plan), placement(placement),
        changes(placement.numStages + 1) {}

  /// Held from stage `first` to `last`, both included.
  void hold(Holding::Kind kind, unsigned tensor, const Layout &layout,
            int first, int last) {
    int64_t bytes = problem.getBytes(tensor, layout);
    unsigned begin = std::max(first, 0), end = std::max(last, 0);
    changes[begin] += bytes;
    changes[end + 1] -= bytes;
    if (list)
      list->push_back({kind, tensor, layout, bytes, begin, end});
  }
  void addTensors(const std::vector<std::optional<WaitSpan>> &spans);
  void addCopies(const std::vector<std::optional<WaitSpan>> &spans);
  /// Sums up, with workspaces and what is always there.
  std::vector<int64_t> getTotals() const;

  /// Where holdings are written down, if anywhere.
  std::vector<Holding> *list = nullptr;

private:
  const SearchProblem &problem;
  const Plan &plan;
  const Placement &placement;
  std::vector<int64_t> changes;
};
} // namespace

/// A tensor, in its producer's layout, and as a sum over time.
void StageMemory::addTensors(
    const std::vector<std::optional<WaitSpan>> &spans) {
  std::vector<int> lastStages;
  for (const PlacedTensor &tensor : placement.tensors)
    lastStages.push_back(tensor.lastStage);
  for (unsigned i = 0; i < placement.copies.size(); ++i)
    if (spans[i]) {
      int &last = lastStages[placement.copies[i].copy.tensor];
      last = std::max(last, static_cast<int>(spans[i]->last));
    }
  for (unsigned i = 0; i < placement.tensors.size(); ++i) {
    const PlacedTensor &tensor = placement.tensors[i];
    if (tensor.isInPlace ||
        problem.operators[tensor.producer].kind == Operator::Kind::Resident)
      continue;
    int last =
        tensor.isSummed && !tensor.keepsTerms ? tensor.stage : lastStages[i];
    hold(Holding::Kind::Produced, i, tensor.produced, tensor.stage, last);
    if (tensor.isSummed && lastStages[i] > tensor.stage)
      hold(Holding::Kind::Sum, i, getSummedLayout(problem, tensor.produced),
           tensor.stage + 1, lastStages[i]);
  }
}

void StageMemory::addCopies(const std::vector<std::optional<WaitSpan>> &spans) {
  for (unsigned i = 0; i < placement.copies.size(); ++i) {
    const PlacedCopy &copy = placement.copies[i];
    if (copy.isInPlace)
      continue;
    unsigned first =
        spans[i] ? std::min(spans[i]->first, copy.stage) : copy.stage;
    hold(Holding::Kind::Copy, copy.copy.tensor, copy.copy.layout, first,
         copy.lastStage);
  }
}

std::vector<int64_t> StageMemory::getTotals() const {
  std::vector<int64_t> workspaces(placement.numStages);
  int64_t resident = 0;
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    const Operator &info = problem.operators[op];
    const Signature &signature = problem.getSignatures(op)[plan.signatures[op]];
    if (info.kind == Operator::Kind::Resident)
      for (size_t i = 0; i < info.results.size(); ++i)
        resident += problem.getBytes(info.results[i], signature.results[i]);
    int64_t &workspace = workspaces[placement.stageOf[op]];
    workspace = std::max(workspace, signature.workspace);
  }
  std::vector<int64_t> totals;
  int64_t alive = resident;
  for (unsigned stage = 0; stage < placement.numStages; ++stage) {
    alive += changes[stage];
    totals.push_back(alive + workspaces[stage]);
  }
  return totals;
}

static CostReport makeReport(const SearchProblem &problem, const Plan &plan,
                             const Placement &placement) {
  CostReport report;
  std::vector<std::optional<WaitSpan>> spans =
      layOut(problem, plan, placement, report);
  StageMemory memory(problem, plan, placement);
  memory.addTensors(spans);
  memory.addCopies(spans);
  report.stageBytes = memory.getTotals();
  for (int64_t bytes : report.stageBytes)
    report.peak = std::max(report.peak, bytes);
  for (const PlacedCopy &copy : placement.copies)
    report.changes.push_back({copy.stage, copy.copy, copy.from, copy.waits});
  std::sort(report.changes.begin(), report.changes.end(),
            [](const CopyChange &a, const CopyChange &b) {
              return std::tie(a.stage, a.copy) < std::tie(b.stage, b.copy);
            });
  return report;
}

std::optional<CostReport> tandem::cost::cost(const SearchProblem &problem,
                                             const Plan &plan,
                                             ChangeTable &table,
                                             std::string &error) {
  if (problem.accounting != Accounting::Tandem)
    return costHidup(problem, plan, error);
  std::optional<Placement> placement = placeCopies(problem, plan, table, error);
  if (!placement)
    return std::nullopt;
  return makeReport(problem, plan, *placement);
}

bool tandem::cost::derive(const SearchProblem &problem, Plan &plan,
                          std::string &error, LimitUse limit) {
  ChangeTable table(problem);
  std::optional<CostReport> report = cost(problem, plan, table, error);
  if (!report)
    return false;
  if (limit == LimitUse::Hold && report->peak > problem.memoryLimit) {
    error = "the plan holds " + std::to_string(report->peak) +
            " bytes at its peak, expected at most " +
            std::to_string(problem.memoryLimit);
    return false;
  }
  plan.structureHash = getStructureHash(problem);
  plan.accounting = problem.accounting;
  plan.changes = std::move(report->changes);
  plan.cost = report->seconds;
  plan.peak = report->peak;
  return true;
}

/// Appends what is stored, and the largest workspace of each stage.
static void listConstant(const SearchProblem &problem, const Plan &plan,
                         const Placement &placement,
                         std::vector<Holding> &list) {
  std::vector<std::optional<Holding>> workspaces(placement.numStages);
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    const Operator &info = problem.operators[op];
    const Signature &signature = problem.getSignatures(op)[plan.signatures[op]];
    if (info.kind == Operator::Kind::Resident && placement.numStages > 0)
      for (size_t i = 0; i < info.results.size(); ++i)
        list.push_back({Holding::Kind::Stored, info.results[i],
                        signature.results[i],
                        problem.getBytes(info.results[i], signature.results[i]),
                        0, placement.numStages - 1});
    unsigned stage = placement.stageOf[op];
    std::optional<Holding> &largest = workspaces[stage];
    if (signature.workspace > (largest ? largest->bytes : 0))
      largest = Holding{Holding::Kind::Workspace, op,    Layout(),
                        signature.workspace,      stage, stage};
  }
  for (const std::optional<Holding> &workspace : workspaces)
    if (workspace)
      list.push_back(*workspace);
}

std::optional<std::vector<Holding>>
tandem::cost::listHoldings(const SearchProblem &problem, const Plan &plan,
                           ChangeTable &table, std::string &error) {
  std::vector<Holding> list;
  if (problem.accounting != Accounting::Tandem) {
    if (costHidup(problem, plan, error))
      return list;
    return std::nullopt;
  }
  std::optional<Placement> placement = placeCopies(problem, plan, table, error);
  if (!placement)
    return std::nullopt;
  CostReport report;
  std::vector<std::optional<WaitSpan>> spans =
      layOut(problem, plan, *placement, report);
  StageMemory memory(problem, plan, *placement);
  memory.list = &list;
  memory.addTensors(spans);
  memory.addCopies(spans);
  listConstant(problem, plan, *placement, list);
  return list;
}
