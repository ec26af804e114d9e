//===- SearchPlan.h - a plan by search --------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_SEARCHPLAN_H
#define TANDEM_LIB_TRANSFORMS_PLAN_SEARCHPLAN_H

#include "ExplainPlan.h"
#include "PlanFile.h"

namespace tandem::plan {

/// What the options of the stage say about searches and costs.
struct SearchSettings {
  /// Name of the algorithm; empty takes the preset and tells what it costs.
  std::string algorithm;
  /// Cluster file; empty is a laptop with as many devices as are needed.
  std::string cluster;
  /// Where the problem is written; empty is nowhere.
  std::string problemOut;
  double timeLimit = 0; // s; 0 is none
  /// Plan file that a search starts from; empty is none.
  std::string start;
  /// A start for another mesh is left out, instead of an error.
  bool fitsAnyStart = false;
  /// Presets are starts as well, so that no plan is worse than theirs.
  bool usesPresets = true;
  /// The step was imported with `recompute`.
  bool recomputes = false;
  /// A plan that was searched before; nothing is searched then.
  std::optional<cost::Plan> chosen = {};
  /// Say what the plan costs even if nothing else asks for it.
  bool costsPlan = false;
  /// Write the plan's seconds into the IR (WriteDecisions.h).
  bool writesSeconds = false;
  Questions questions = {};
  /// Where answers go.
  std::shared_ptr<PlanResult> result = std::make_shared<PlanResult>();
  /// Asked while a search goes on: true ends it with the best plan so far.
  /// Empty: nobody asks.
  std::function<bool()> endsSearch = {};

  bool isWanted() const {
    return !algorithm.empty() || !cluster.empty() || !problemOut.empty() ||
           costsPlan || writesSeconds || !start.empty() || questions.isAny();
  }
};

/// `, optimal`, or how far the plan may be from the best; empty if nothing was
/// proven.
std::string printGap(const cost::Plan &plan);

/// Plans all axes of `graph`, by a search or the preset, says what the plan
/// costs, and gives its decisions. Writes nothing into the IR. Fails with one
/// error at the step.
mlir::FailureOr<Decisions> planBySearch(StepGraph &graph,
                                        const SearchSettings &settings,
                                        llvm::StringRef preset,
                                        llvm::StringRef pins);

/// The plan that `planBySearch` would take by a search. Writes nothing into the
/// IR.
mlir::FailureOr<cost::Plan> findPlan(StepGraph &graph,
                                     const SearchSettings &settings,
                                     llvm::StringRef pins);

/// Costs the plan of a file, which `graph` has; likewise.
mlir::FailureOr<Decisions> costAgain(StepGraph &graph,
                                     const SearchSettings &settings,
                                     const PlanFile &file);

/// Says where the plan of a file, which `graph` has, differs from
/// that of another file, which may be for another mesh; likewise.
mlir::FailureOr<std::string> compareFiles(StepGraph &graph,
                                          const SearchSettings &settings,
                                          const PlanFile &file,
                                          StepGraph &otherGraph,
                                          const PlanFile &other);

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_SEARCHPLAN_H
