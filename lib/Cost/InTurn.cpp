//===- InTurn.cpp - collectives that may not start early ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Cost/InTurn.h"
#include "tandem/Cost/Holdings.h"
#include <algorithm>

using namespace tandem::cost;

namespace {
class TurnFinder {
public:
  TurnFinder(const SearchProblem &problem, const Plan &plan,
             const CostReport &report, ChangeTable &table)
      : problem(problem), plan(plan), report(report), table(table),
        producers(problem.getProducers()), begun(report.stageBytes.size()),
        releases(report.stageBytes.size()) {}

  std::vector<unsigned> run(const std::vector<Holding> &holdings);

private:
  void findComputation();
  bool sends(const CopyChange &change) const;
  int getRelease(const CopyChange &change) const;
  void addChange(const CopyChange &change);
  bool isAhead(int stage) const {
    return stage > 0 && plan.isAhead(plan.stageEnds[stage - 1]);
  }
  bool isSerial(unsigned stage) const;
  bool fitsEarly(unsigned stage, int first) const;

  const SearchProblem &problem;
  const Plan &plan;
  const CostReport &report;
  ChangeTable &table;
  std::vector<unsigned> producers;
  /// Per operator its stage; per stage the one before it that computes, or -1.
  std::vector<int> stageOf, computedBefore;
  /// Bytes of copies that are held from each stage on.
  std::vector<int64_t> begun;
  /// The last stage whose computation is done at least when collectives of each
  /// stage begin; none where there are none but those that wait.
  std::vector<std::optional<int>> releases;
};
} // namespace

void TurnFinder::findComputation() {
  int before = -1;
  unsigned op = 0;
  for (unsigned stage = 0; stage < plan.stageEnds.size(); ++stage) {
    computedBefore.push_back(before);
    for (; op < plan.stageEnds[stage]; ++op) {
      stageOf.push_back(static_cast<int>(stage));
      if (problem.operators[op].kind == Operator::Kind::Compute)
        before = static_cast<int>(stage);
    }
  }
}

/// Whether `change` communicates; slices and what strands do among themselves
/// are computation.
bool TurnFinder::sends(const CopyChange &change) const {
  for (const AxisChange &next :
       table.getSequence(change.copy.tensor, change.from, change.copy.layout))
    if (!problem.axes[next.axis].isTime && next.from != kFull)
      return true;
  return false;
}

/// The last stage whose computation is done when `change` begins. What is made
/// of an argument or of another copy begins at most one step of computation
/// early (Transforms/Schedule/PlaceEvents.cpp).
int TurnFinder::getRelease(const CopyChange &change) const {
  unsigned producer = producers[change.copy.tensor];
  const Operator &info = problem.operators[producer];
  const auto &results = info.results;
  size_t index = std::find(results.begin(), results.end(), change.copy.tensor) -
                 results.begin();
  Layout made =
      problem.getSignatures(producer)[plan.signatures[producer]].results[index];
  // Sums over time are computed.
  if (int time = problem.getTimeAxis(); time >= 0)
    made[time] = change.from[time];
  if (!info.isArgument() && change.from == made) {
    int release = stageOf[producer];
    while (isAhead(release))
      --release;
    return release;
  }
  int before = computedBefore[change.stage];
  return before < 0 ? -1 : computedBefore[before];
}

void TurnFinder::addChange(const CopyChange &change) {
  if (change.waits || !sends(change))
    return;
  int stage = getRelease(change);
  std::optional<int> &release = releases[change.stage];
  release = std::min(release.value_or(stage), stage);
}

/// Of the first step of `stage`.
bool TurnFinder::isSerial(unsigned stage) const {
  return stage > 0 && (report.stageStrands[stage] == 1 ||
                       report.stageStrands[stage - 1] == 1);
}

/// Whether what the stages up to `stage` begin fits beside each of the stages
/// from `first` on.
bool TurnFinder::fitsEarly(unsigned stage, int first) const {
  int64_t early = 0;
  for (int beside = static_cast<int>(stage) - 1; beside >= first; --beside) {
    early += begun[beside + 1];
    if (report.stageBytes[beside] + early > problem.memoryLimit)
      return false;
  }
  return true;
}

std::vector<unsigned> TurnFinder::run(const std::vector<Holding> &holdings) {
  findComputation();
  for (const Holding &holding : holdings)
    if (holding.kind == Holding::Kind::Copy)
      begun[holding.first] += holding.bytes;
  for (const CopyChange &change : report.changes)
    addChange(change);
  std::vector<unsigned> found;
  // The last stage whose computation is done when the queue comes to `stage`.
  int done = -1;
  for (unsigned stage = 0; stage < releases.size(); ++stage) {
    if (!releases[stage])
      continue;
    done = std::max(done, *releases[stage]);
    if (!isSerial(stage) || fitsEarly(stage, done + 1))
      continue;
    found.push_back(stage);
    done = static_cast<int>(stage) - 1;
  }
  return found;
}

std::vector<unsigned> tandem::cost::findInTurn(const SearchProblem &problem,
                                               const Plan &plan,
                                               ChangeTable &table) {
  if (problem.memoryLimit == kNoLimit)
    return {};
  std::string error;
  std::optional<CostReport> report = cost(problem, plan, table, error);
  auto holdings = listHoldings(problem, plan, table, error);
  if (!report || !holdings || holdings->empty())
    return {};
  return TurnFinder(problem, plan, *report, table).run(*holdings);
}
