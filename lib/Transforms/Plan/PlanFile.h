//===- PlanFile.h - a plan as text ------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The stored form of each argument and the signature and strands of each
// operator, keyed by `nn.id` and bound to its graph by a content hash:
//
//   tandem-plan 3
//   graph 4e1f...
//   mesh data=4,model=2
//   micro 2
//   argument 3 parameter layers.0.w1: model=gather(1)
//   operator 17 nn.matmul: data='gather(0), full -> gather(0)' micro='...'
//   end 5
//
// An axis that a line does not name is `full` throughout; operators that are
// `full` on all axes have no line. The last line counts those after the first
// one, without comments and empty lines. Where a cluster priced the plan, its
// decisions (Decisions.h) stand behind `micro`. In the file of a search,
// sources (OperatorGroups.h) have no line: they are in the forms that their
// readers want.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_PLANFILE_H
#define TANDEM_LIB_TRANSFORMS_PLAN_PLANFILE_H

#include "Decisions.h"
#include "tandem/Dialect/SPMD/MeshText.h"
#include "tandem/Transforms/Plan/Plan.h"

namespace tandem::plan {

struct PlanFile {
  std::string path, mesh;
  int64_t micro = 1;
  /// What was found; `readPlan` adds what is followed.
  Decisions decisions;
  /// All other lines: of arguments, operators, stages, copies and waits.
  struct Line {
    unsigned number;
    std::string text;
  };
  std::vector<Line> lines;
  /// The number of the line `pins`.
  unsigned pinsLine = 0;
};

/// Reads the file; fails with an error at `step` if it cannot be read, has
/// another version, was made for another graph, or is cut off.
mlir::FailureOr<PlanFile> readPlanFile(const StepGraph &graph,
                                       llvm::StringRef path);

/// The graph of the plan file where that is not `graph`, but the same step
/// with, or without, an offer to make values again; on no mesh.
std::optional<StepGraph> findOtherStep(const StepGraph &graph,
                                       const PlanExchange &exchange,
                                       llvm::StringRef path);

/// The error that the file is of the other step; the result of `exchange` says
/// so, too.
mlir::InFlightDiagnostic emitOtherStep(const StepGraph &graph,
                                       const PlanExchange &exchange,
                                       llvm::StringRef path);

/// Reads the lines for `graph`, on the file's mesh: sets its forms and
/// signatures, and the file's decisions. What is not legal is an error that
/// names the line. Writes nothing into the IR.
mlir::LogicalResult readPlan(StepGraph &graph, PlanFile &file);

/// `operator 17`: how lines name parts, a group by its first operator, and what
/// makes a value.
std::string describe(const StepGraph &graph, Part part);
std::string describeMaker(const StepGraph &graph, unsigned value);

/// Behind the place of a stage.
inline constexpr llvm::StringLiteral kInTurn = "in turn", kAhead = "ahead";
/// Before the number of an operand: the source that a choice takes.
inline constexpr llvm::StringLiteral kAgain = "again";
/// The same of what waited on the host.
inline constexpr llvm::StringLiteral kHost = "host";

/// The error `plan file 'FILE', line N: `, at the step.
mlir::InFlightDiagnostic emitLineError(const StepGraph &graph,
                                       llvm::StringRef file, unsigned line);

/// The text of a plan file.
std::string printPlan(const StepGraph &graph, const Decisions &decisions);

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_PLANFILE_H
