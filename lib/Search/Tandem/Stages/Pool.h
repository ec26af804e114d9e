//===- Pool.h - finished plans, the best one first --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Makes plans of signatures: chooses kept and waiting copies and stages, asks
// `cost` what the plan costs, and remembers the best one within the memory
// limit.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_STAGES_POOL_H
#define TANDEM_LIB_SEARCH_TANDEM_STAGES_POOL_H

#include "Tandem/Problem/Forms.h"
#include "Tandem/Stages/Stages.h"
#include "tandem/Cost/Cost.h"
#include <functional>

namespace tandem::search {

/// What a plan's seconds sum up to, by what they are priced for (`Weights`).
struct PlanTotals {
  double once = 0, alone = 0, split = 0, again = 0, collectiveOnce = 0,
         collectiveSplit = 0, joined = 0, waiting = 0;

  double getSum() const {
    return once + alone + split + again + collectiveOnce + collectiveSplit +
           joined + waiting;
  }
};

class PlanPool {
public:
  PlanPool(const Facts &facts, cost::ChangeTable &table)
      : facts(facts), table(table), forms(facts, table), stages(facts) {}

  /// A plan that was costed here.
  struct Record {
    std::optional<cost::Plan> plan;
    double seconds = std::numeric_limits<double>::infinity();
  };

  /// Makes the best plan of these signatures. Returns its seconds; infinity if
  /// none is legal within the limit.
  double offer(const std::vector<unsigned> &signatures);
  /// Takes the plan as it is, and with better stages.
  double offer(const cost::Plan &plan);

  /// Asks what the plan costs as it is, and keeps it if it is the best one.
  double take(const cost::Plan &plan);

  /// Takes the plan as it is, and divided anew with the copies that it has.
  double offerDivided(const cost::Plan &plan, bool isCareful);

  /// Begins anew, with no best plan; returns the one so far.
  Record forget();
  /// Takes one back if it is better.
  void restore(Record record);

  /// Removes cuts of the best plan that gain nothing.
  void dropCuts();

  /// The best plan so far and what it costs.
  std::optional<cost::Plan> best;
  double seconds = std::numeric_limits<double>::infinity();
  /// The best plan of the last offer, if one was legal within the limit.
  Record offered;
  /// Changes with the best plan.
  uint64_t numBest = 0;
  /// What would be the best plan if there were no limit, and what it costs.
  std::optional<cost::Plan> cheapest;
  double leastSeconds = std::numeric_limits<double>::infinity();
  /// The least memory of a plan that was legal but for the limit.
  int64_t leastPeak = std::numeric_limits<int64_t>::max();
  std::optional<cost::Plan> smallest;
  std::vector<PlanTotals> totals;
  uint64_t numPlans = 0;

private:
  void addTotals(const cost::Plan &plan, const cost::CostReport &report);
  double divide(cost::Plan &plan, unsigned maxFront);
  unsigned getFront(double work) const;
  double fit(cost::Plan &plan);
  std::vector<cost::Copy> rankKept(const cost::Plan &plan, size_t &numFree);
  double getSeconds(const cost::Plan &plan) const;

  const Facts &facts;
  cost::ChangeTable &table;
  FixedForms forms;
  StagePlanner stages;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_STAGES_POOL_H
