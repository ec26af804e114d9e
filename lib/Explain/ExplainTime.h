//===- ExplainTime.h - slots and exposed time -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lays a plan's collectives into its slots and shares out what is exposed
// (Explain.h).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_EXPLAIN_EXPLAINTIME_H
#define TANDEM_LIB_EXPLAIN_EXPLAINTIME_H

#include "ExplainNames.h"
#include "tandem/Cost/Accounting.h"
#include "tandem/Cost/TensorIndex.h"
#include "tandem/Explain/Explain.h"
#include <map>
#include <memory>
#include <set>

namespace tandem::explain {

/// A collective on one axis, as a step of the change that makes a copy.
struct Transfer {
  /// Index into `CostReport::changes`.
  unsigned change;
  std::string_view kind;
  unsigned axis;
  cost::Pass pass;
  /// What a device would hold if the axis were `full`.
  int64_t bytes;
  /// Of one strand if every strand makes it, else of all.
  double seconds;
  bool isPerStrand, waits;
  /// Over all strands.
  double total = 0, exposed = 0;
  unsigned count = 0;
};

/// Transfers, as indices, each with seconds.
using Queue = std::vector<std::pair<unsigned, double>>;

/// What is exposed in a slot: of each transfer, and of all.
struct SlotExposure {
  Cause cause;
  double seconds;
  Queue transfers;
};

/// The name of the collective of a step, and over time what is done instead;
/// empty if it is local.
std::string_view getStepName(const cost::SearchProblem &problem,
                             const cost::AxisChange &step);

/// Seconds that an operator computes, over all strands; 0 for arguments.
double getComputeSeconds(const cost::SearchProblem &problem,
                         const cost::Plan &plan, unsigned op);

class TimeAnalysis {
public:
  TimeAnalysis(const cost::SearchProblem &problem, const cost::Plan &plan,
               const cost::CostReport &report, cost::ChangeTable &table);

  PlanTime time;
  std::vector<Transfer> transfers;
  std::vector<SlotExposure> slots;

private:
  void addComputation();
  void addTransfers();
  void addSlots();
  void addWaiting();
  std::vector<double> getStageComputation() const;
  std::vector<std::vector<Queue>>
  addPassTransfers(const cost::AccountingRules &rules);
  void addStagePasses();
  Cause getCause(unsigned slot, double computation, double collective) const;
  void expose(Cause cause, double seconds, Queue beside);

  const cost::SearchProblem &problem;
  const cost::Plan &plan;
  const cost::CostReport &report;
  cost::ChangeTable &table;
  int64_t numStrands;
  /// Transfers of each stage that do not wait.
  std::vector<std::vector<unsigned>> ofStage;
  /// Whether a change of form brings the strands together in a stage.
  std::vector<bool> joins;
};

/// Exposed seconds by kind and axis, `all-gather data`.
std::map<std::string, double>
getExposedByKind(const cost::SearchProblem &problem,
                 const TimeAnalysis &analysis);

/// What an explanation rests on: a legal plan and its cost.
struct PlanFacts {
  const cost::SearchProblem &problem;
  const cost::Plan &plan;
  cost::TensorIndex index;
  cost::ChangeTable table;
  cost::CostReport report;
  TimeAnalysis analysis;
  Names names;

  /// Nothing, with `error`, if the plan is not legal.
  static std::unique_ptr<PlanFacts> make(const cost::SearchProblem &problem,
                                         const cost::Plan &plan,
                                         std::string &error);

  /// The layout that the producer gives a tensor.
  const cost::Layout &getLayout(unsigned tensor) const {
    return index.getProduced(plan.signatures, tensor);
  }
  /// Those that its signatures give it.
  std::set<cost::Layout> getLayouts(unsigned tensor) const;

private:
  PlanFacts(const cost::SearchProblem &problem, const cost::Plan &plan,
            cost::ChangeTable table, cost::CostReport report);
};

/// `exposed` of each slot by cause, the longest first.
std::vector<Exposure> getExposures(const PlanFacts &facts);
/// Transfers of equal kind, axis, name, pass and size as one; the longest
/// first.
std::vector<Collective> getCollectives(const PlanFacts &facts);

} // namespace tandem::explain

#endif // TANDEM_LIB_EXPLAIN_EXPLAINTIME_H
