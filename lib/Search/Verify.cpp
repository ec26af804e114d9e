//===- Verify.cpp - independent check of plans ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Search/Search.h"
#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace tandem;
using namespace tandem::cost;

/// Costs are sums of equal numbers in equal order; a plan that was printed and
/// edited may have lost a digit.
constexpr double kTolerance = 1e-12;

static bool isClose(double a, double b) {
  return std::isfinite(a) &&
         std::abs(a - b) <= kTolerance * std::max(std::abs(a), std::abs(b));
}

static std::string describe(const SearchProblem &problem,
                            const CopyChange &change) {
  return "the change of tensor " + std::to_string(change.copy.tensor) + " '" +
         problem.tensors[change.copy.tensor].name + "' from '" +
         print(problem, change.from) + "' to '" +
         print(problem, change.copy.layout) + "'" +
         (change.waits ? ", which waits," : "") + " in stage " +
         std::to_string(change.stage);
}

/// The first change that only one of the two has.
static bool compareChanges(const SearchProblem &problem,
                           const std::vector<CopyChange> &found,
                           const std::vector<CopyChange> &expected,
                           std::string &error) {
  for (const CopyChange &change : expected)
    if (std::find(found.begin(), found.end(), change) == found.end()) {
      error = "the plan lacks " + describe(problem, change);
      return false;
    }
  for (const CopyChange &change : found)
    if (std::find(expected.begin(), expected.end(), change) == expected.end()) {
      error = "the plan makes " + describe(problem, change) +
              ", expected none there";
      return false;
    }
  if (found == expected)
    return true;
  error =
      "the plan's changes are out of order or repeated, expected each once, "
      "by stage, tensor, layout and pass";
  return false;
}

bool tandem::search::isForProblem(const SearchProblem &problem,
                                  const Plan &plan, std::string &error) {
  std::string hash = getStructureHash(problem);
  if (plan.structureHash == hash)
    return true;
  error = "the plan is for the problem " +
          (plan.structureHash.empty() ? "(no hash)" : plan.structureHash) +
          ", expected " + hash + ": search again for this problem";
  return false;
}

/// `2.5 s, expected 2.25 s`, with all digits where fewer are the same.
static std::string printApart(double found, double expected) {
  std::string texts[] = {printSeconds(found), printSeconds(expected)};
  if (texts[0] == texts[1]) {
    char digits[2][64];
    snprintf(digits[0], sizeof digits[0], "%.17g s", found);
    snprintf(digits[1], sizeof digits[1], "%.17g s", expected);
    return std::string(digits[0]) + ", expected " + digits[1];
  }
  return texts[0] + ", expected " + texts[1];
}

bool tandem::search::verifyPlan(const SearchProblem &problem, const Plan &plan,
                                std::string &error) {
  error.clear();
  auto fail = [&](std::string message) {
    error = std::move(message);
    return false;
  };
  if (!isForProblem(problem, plan, error))
    return false;
  if (plan.accounting != problem.accounting)
    return fail(
        "the plan is costed under another accounting than the problem's");
  ChangeTable table(problem);
  std::optional<CostReport> report = cost::cost(problem, plan, table, error);
  if (!report || !compareChanges(problem, plan.changes, report->changes, error))
    return false;
  if (!isClose(plan.cost, report->seconds))
    return fail("the plan's cost is " + printApart(plan.cost, report->seconds));
  if (plan.peak != report->peak)
    return fail("the plan's peak is " + std::to_string(plan.peak) +
                " B, expected " + std::to_string(report->peak) + " B");
  if (report->peak > problem.memoryLimit)
    return fail("the plan holds " + std::to_string(report->peak) +
                " B at its peak, expected at most " +
                std::to_string(problem.memoryLimit) + " B");
  if (plan.lowerBound > plan.cost && !isClose(plan.lowerBound, plan.cost))
    return fail("the plan's lower bound is " + printSeconds(plan.lowerBound) +
                ", expected at most its cost, " + printSeconds(plan.cost));
  if (plan.isOptimal && !isProven(plan.cost, plan.lowerBound))
    return fail("the plan says optimal, but its lower bound is below its cost");
  return true;
}
