//===- CopyUses.h - uses of a value by form ---------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_COPYUSES_H
#define TANDEM_LIB_TRANSFORMS_PLAN_COPYUSES_H

#include "Decisions.h"
#include "StepGraph.h"

namespace tandem::plan {

/// Who takes a value in which forms, by the signatures of a graph and the
/// stages of decisions. Both must live as long.
class CopyUses {
public:
  CopyUses(const StepGraph &graph, const Decisions &decisions)
      : stages(graph, decisions.stages), graph(graph), decisions(decisions) {}

  /// The stage that makes the value; none for an argument or a source.
  std::optional<unsigned> getMadeIn(unsigned value) const;
  /// The stage of the first operator or result of `pass` that takes the value
  /// in `forms`, or in any if there are none; nothing if none does.
  std::optional<unsigned> findStage(unsigned value, PassKind pass,
                                    const spmd::Forms *forms = nullptr) const;
  /// In which the value is there for copies to `forms`: as it was made, but a
  /// gradient as the sum over time.
  spmd::Forms getMade(unsigned value, PassKind pass,
                      const spmd::Forms &forms) const;
  /// The forms that a copy has on the way: those of its decision, or one change
  /// of what was made.
  llvm::SmallVector<spmd::Forms, 2> getPath(unsigned value, PassKind pass,
                                            const spmd::Forms &forms) const;
  /// How many collectives lead from the gradient to the copy; a slice sends
  /// nothing.
  unsigned countCollectives(const PlannedWait &wait) const;

  const StageNumbers stages;

private:
  const StepGraph &graph;
  const Decisions &decisions;
};

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_COPYUSES_H
