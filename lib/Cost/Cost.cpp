//===- Cost.cpp - the cost of a plan --------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Cost/Cost.h"
#include "HidupCost.h"
#include "Memory.h"
#include "OasesCost.h"
#include <algorithm>
#include <tuple>

using namespace tandem::cost;

static CostReport makeReport(const SearchProblem &problem, const Plan &plan,
                             const Placement &placement) {
  CostReport report;
  std::vector<std::optional<WaitSpan>> spans =
      layOut(problem, plan, placement, report);
  report.stageBytes =
      PlanMemory(problem, plan, placement, spans).getStageBytes();
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

/// Under the accountings of papers.
static std::optional<CostReport> costOfPaper(const SearchProblem &problem,
                                             const Plan &plan,
                                             std::string &error) {
  return problem.accounting == Accounting::Oases
             ? costOases(problem, plan, error)
             : costHidup(problem, plan, error);
}

std::optional<CostReport> tandem::cost::cost(const SearchProblem &problem,
                                             const Plan &plan,
                                             ChangeTable &table,
                                             std::string &error) {
  if (problem.accounting != Accounting::Tandem)
    return costOfPaper(problem, plan, error);
  std::optional<Placement> placement = placeCopies(problem, plan, table, error);
  if (!placement)
    return std::nullopt;
  return makeReport(problem, plan, *placement);
}

std::vector<unsigned> tandem::cost::listAheadable(const SearchProblem &problem,
                                                  Plan plan,
                                                  ChangeTable &table) {
  std::vector<unsigned> stages;
  unsigned begin = 0;
  for (unsigned end : plan.stageEnds) {
    auto isAgain = [&](const Operator &op) { return op.isAgain; };
    std::string error;
    plan.ahead = {begin};
    if (std::any_of(problem.operators.begin() + begin,
                    problem.operators.begin() + end, isAgain) &&
        placeCopies(problem, plan, table, error))
      stages.push_back(begin);
    begin = end;
  }
  return stages;
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

/// Asks the memory of a legal plan; an empty list under other accountings.
template <typename Ask>
static std::optional<std::vector<Holding>>
askMemory(const SearchProblem &problem, const Plan &plan, ChangeTable &table,
          std::string &error, Ask ask) {
  if (problem.accounting != Accounting::Tandem) {
    if (costOfPaper(problem, plan, error))
      return std::vector<Holding>();
    return std::nullopt;
  }
  std::optional<Placement> placement = placeCopies(problem, plan, table, error);
  if (!placement)
    return std::nullopt;
  CostReport report;
  return ask(PlanMemory(problem, plan, *placement,
                        layOut(problem, plan, *placement, report)));
}

std::optional<std::vector<Holding>>
tandem::cost::listHoldings(const SearchProblem &problem, const Plan &plan,
                           ChangeTable &table, std::string &error) {
  return askMemory(problem, plan, table, error,
                   [](const PlanMemory &memory) { return memory.list(); });
}

std::optional<std::vector<Holding>>
tandem::cost::listHeldAtPeak(const SearchProblem &problem, const Plan &plan,
                             unsigned stage, ChangeTable &table,
                             std::string &error) {
  return askMemory(problem, plan, table, error, [&](const PlanMemory &memory) {
    return memory.listAtPeak(stage);
  });
}
