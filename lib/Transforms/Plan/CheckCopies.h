//===- CheckCopies.h - whether a record's copies are made -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_CHECKCOPIES_H
#define TANDEM_LIB_TRANSFORMS_PLAN_CHECKCOPIES_H

#include "ReadOrder.h"

namespace tandem::plan {

/// Who takes a value in which forms, by the signatures of a graph and the
/// stages of an order.
class CopyUses {
public:
  CopyUses(const StepGraph &graph, const OperatorGroups &groups,
           const RecordedOrder &order)
      : graph(graph), groups(groups), order(order) {}

  /// The stage of the first operator or result of `pass` that takes the value
  /// in `forms`, or in any if there are none; nothing if none does.
  std::optional<unsigned>
  findStage(unsigned value, cost::Pass pass,
            std::optional<cost::Layout> forms = std::nullopt) const;
  /// In which the value is there for copies to `forms`: as it was made, but a
  /// gradient as the sum over time.
  cost::Layout getMade(unsigned value, cost::Pass pass,
                       const cost::Layout &forms) const;
  /// The forms that a copy has on the way: those of its line, or one change of
  /// what was made.
  llvm::SmallVector<cost::Layout, 2> getPath(unsigned value, cost::Pass pass,
                                             const cost::Layout &forms) const;

private:
  cost::Layout getWanted(const Use &use) const;

  const StepGraph &graph;
  const OperatorGroups &groups;
  const RecordedOrder &order;
};

/// Checks the lines `copy` of `record`, which `order` holds with the stages:
/// each is made for operators of its pass, once, from forms that are there
/// before its stage, by changes that there are collectives for, and is kept for
/// a later pass if at all. Fails with an error that names the line of `file`.
mlir::LogicalResult checkCopies(const StepGraph &graph,
                                const OperatorGroups &groups,
                                const PlanRecord &record,
                                const RecordedOrder &order,
                                llvm::StringRef file);

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_CHECKCOPIES_H
