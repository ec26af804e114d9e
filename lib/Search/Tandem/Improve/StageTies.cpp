//===- StageTies.cpp - the fewest stages of equal cost --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Improve/StageTies.h"
#include "Tandem/Limits.h"
#include "tandem/Cost/Cost.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::search;

namespace {
class StageJoiner {
public:
  StageJoiner(const SearchProblem &problem, const Plan &plan,
              const std::function<bool()> &proceeds)
      : problem(problem), proceeds(proceeds), table(problem), plan(plan),
        most(plan.cost * (1 + kEqualCost)) {}
  Plan run();

private:
  bool removeAll(size_t begin, size_t end);
  void remove(size_t begin, size_t end);

  const SearchProblem &problem;
  const std::function<bool()> &proceeds;
  ChangeTable table;
  Plan plan;
  double most;
  uint64_t work = 0;
};
} // namespace

/// The cuts `begin` to `end`, if all of them may go.
bool StageJoiner::removeAll(size_t begin, size_t end) {
  work += problem.operators.size();
  Plan joined = plan;
  for (size_t i = end; i-- > begin;)
    joined.removeCut(joined.stageEnds.begin() + i);
  std::string error;
  auto report = tandem::cost::cost(problem, joined, table, error);
  bool isEqual = report && report->seconds <= most && report->peak <= plan.peak;
  if (isEqual)
    plan = std::move(joined);
  return isEqual;
}

/// All that may go of the cuts `begin` to `end`; those behind `end` stay.
void StageJoiner::remove(size_t begin, size_t end) {
  if (begin == end || work >= kCostWork || !proceeds() ||
      removeAll(begin, end) || end - begin == 1)
    return;
  size_t middle = begin + (end - begin) / 2;
  remove(middle, end);
  remove(begin, middle);
}

Plan StageJoiner::run() {
  // The last end is that of the problem.
  remove(0, plan.stageEnds.size() - 1);
  return std::move(plan);
}

void tandem::search::joinStages(const SearchProblem &problem, Plan &plan,
                                const std::function<bool()> &proceeds) {
  Plan joined = StageJoiner(problem, plan, proceeds).run();
  std::string error;
  if (joined.stageEnds.size() == plan.stageEnds.size() ||
      !derive(problem, joined, error))
    return;
  joined.isOptimal = plan.isOptimal;
  joined.lowerBound =
      plan.isOptimal ? joined.cost : std::min(plan.lowerBound, joined.cost);
  plan = std::move(joined);
}
