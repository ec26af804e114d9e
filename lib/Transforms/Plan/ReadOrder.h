//===- ReadOrder.h - stages and copies of a record --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_READORDER_H
#define TANDEM_LIB_TRANSFORMS_PLAN_READORDER_H

#include "PlanRecord.h"
#include "tandem/Analysis/PlannedOrder.h"

namespace tandem::plan {

/// A line `copy` or `wait`.
struct CopyText {
  unsigned value = 0;
  cost::Pass pass = cost::Pass::Update;
  bool isKept = false, waits = false;
  /// The forms that the copy has on the way; of one that waits, at its end.
  llvm::SmallVector<cost::Layout, 2> path;
  /// Of one that waits; empty if the line does not say where it is sent.
  PlannedPieces pieces;
};

/// What the lines `stage`, `copy` and `wait` of a record say.
struct RecordedOrder {
  unsigned numArguments = 0, numGroups = 0;
  /// By line, what the stage begins with: the index in the list of all
  /// arguments, groups and results of the step.
  std::vector<unsigned> stages;
  /// By that index.
  std::vector<unsigned> stageOf;
  /// Stages `in turn`, in the order of the lines.
  std::vector<unsigned> inTurn;
  /// By line.
  std::vector<CopyText> copies, waits;
  /// Whether some collective waits of which no line says where it is sent.
  bool lacksPieces = false;

  /// The index in that list.
  unsigned getIndex(const Extraction::Origin &origin) const;
};

/// The error `plan file 'FILE', line N: `, at the step.
mlir::InFlightDiagnostic emitLineError(const StepGraph &graph,
                                       llvm::StringRef file,
                                       const PlanRecord::Entry &entry);

/// The error that a plan of one stage has the line.
mlir::LogicalResult emitOneStage(const StepGraph &graph, llvm::StringRef file,
                                 const PlanRecord::Entry &entry,
                                 llvm::StringRef what);

/// Reads the lines for `graph`, which has the plan's signatures. Fails with an
/// error that names the line of `file` if one is not of the grammar, names what
/// the step does not have or a copy that is not made so (CheckCopies.h), or
/// lets something wait that is no gradient that an update takes so, or in a
/// slot that does not lie between the two.
mlir::FailureOr<RecordedOrder> readOrder(const StepGraph &graph,
                                         const OperatorGroups &groups,
                                         const PlanRecord &record,
                                         llvm::StringRef file);

/// A line `copy` or `wait` that is not followed where prices decide, and what
/// happens to what it names: `is sent in 3/0 1`.
struct MovedLine {
  const PlanRecord::Entry *entry;
  std::string costed;
};

/// The lines of `record`, which `order` holds, that say otherwise than
/// `costed`, the same decisions as prices have them.
mlir::FailureOr<std::vector<MovedLine>> findMoved(const StepGraph &graph,
                                                  const PlanRecord &record,
                                                  const RecordedOrder &order,
                                                  const PlanRecord &costed,
                                                  llvm::StringRef file);

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_READORDER_H
