//===- PlanFile.h - a plan as text ------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A plan file is text, one line per argument that is not stored `full` and per
// operator, keyed by `nn.id` and bound to its graph by a content hash:
//
//   tandem-plan 2
//   graph 4e1f...
//   mesh data=4,model=2
//   micro 2
//   argument 3 parameter layers.0.w1: model=gather(1)
//   operator 17 nn.matmul: data='gather(0), full -> gather(0)' micro='...'
//   end 5
//
// An axis that a line does not name is `full` throughout; operators that are
// `full` on all axes have no line. The last line counts those after the first
// one, without comments and empty lines. Where a cluster priced the plan, lines
// of a record (PlanRecord.h) stand behind `micro`. In the file of a search,
// sources (OperatorGroups.h) have no line: they are in the forms that their
// readers want.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_PLANFILE_H
#define TANDEM_LIB_TRANSFORMS_PLAN_PLANFILE_H

#include "PlanRecord.h"

namespace tandem::plan {

struct PlanFile {
  std::string mesh;
  int64_t micro = 1;
  std::string path;
  PlanRecord record;
  /// The lines of arguments and operators, with their number in the file.
  std::vector<std::pair<unsigned, std::string>> lines;
};

/// `full, gather(0) -> reduce`, or none.
std::optional<spmd::Signature> parseSignature(llvm::StringRef text);

/// SHA-256 of the module's text without locations and without what plan
/// writes, in hexadecimal.
std::string hashGraph(mlir::ModuleOp module);

/// Reads the file; fails with an error at `step` if it cannot be read, has
/// another version, was made for another graph than `hash`, or is cut off.
mlir::FailureOr<PlanFile> readPlanFile(mlir::func::FuncOp step,
                                       llvm::StringRef path,
                                       llvm::StringRef hash);

/// `data=4,model=2`: the space axes, as a plan file writes them.
std::string getMeshText(spmd::MeshAttr mesh);

/// Sets forms and signatures of `graph`; writes nothing into the IR.
mlir::LogicalResult readSignatures(StepGraph &graph, const PlanFile &file);

/// Writes the copies of the record and clones of sources into the IR; `graph`
/// has the forms and signatures of the file. What is not legal is an error that
/// names the line.
mlir::LogicalResult applyPlanFile(StepGraph &graph, const PlanFile &file);

mlir::LogicalResult writePlanFile(const StepGraph &graph, llvm::StringRef path,
                                  llvm::StringRef hash,
                                  const PlanRecord &record);

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_PLANFILE_H
