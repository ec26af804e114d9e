//===- PlanRecord.h - what a search decided beside forms --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Signatures say where everything is. A search also decides where stages begin,
// which copies are kept and which collectives wait; a plan file holds that by
// what the step itself has, so that it can be read and changed by hand:
//
//   search tandem
//   pins layers.*.w1:model=gather(1)
//   cluster h100-8x8
//   cost 0.123 s
//   bound 0.12 s proof 8f14e45fceea167a
//   peak 1234567 B
//   stage operator 17
//   stage operator 24: in turn
//   copy argument 3: 0 forward kept full, gather(0) -> full, full
//   wait operator 55: 0 gather(0), full in 20/1 0.25, 21/0 1
//
// `stage` names what a stage begins with (the first one has no line); `in turn`
// says that its collectives do not begin beside the computation of the stages
// before (`sched.in_turn`), which follows from the memory limit. The texts
// of `copy` and `wait` are those of `spmd.copies` and `spmd.waits` (Plan.h). A
// copy that is made of the value itself by one change has no line. Where a
// collective is sent (`in ...`) follows from prices, as cost and peak do; it is
// there so that a plan can be followed without any, and may be left out.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_PLANRECORD_H
#define TANDEM_LIB_TRANSFORMS_PLAN_PLANRECORD_H

#include "ApplyPlan.h"

namespace tandem::plan {

constexpr llvm::StringLiteral kInTurn = "in turn";
constexpr llvm::StringLiteral kPassNames[] = {"forward", "backward", "update"};

struct PlanRecord {
  /// A line of a file: what it is about (`operator 17`), what it says, and its
  /// number, 0 for one that was not read.
  struct Entry {
    std::string place, text;
    unsigned line = 0;
  };

  /// The algorithm, empty for a preset; the cluster, empty without costs.
  std::string search, cluster;
  /// What the search had to obey, as `--pin` has it.
  std::string pins;
  double cost = 0, bound = 0; // s
  /// Of which problem the bound was proven (`cost::getProofHash`).
  std::string proof;
  int64_t peak = 0; // B
  std::vector<Entry> stages, copies, waits;

  /// Without stages, be it that somebody left them out to have them chosen.
  bool isUnstaged() const {
    return stages.empty() &&
           (search.empty() || (copies.empty() && waits.empty()));
  }
};

/// `plan` has been derived.
PlanRecord makeRecord(const StepGraph &graph, const Extraction &extraction,
                      const cost::Plan &plan);

void print(const PlanRecord &record, llvm::raw_ostream &os);

/// The forms on the first axes: `full, gather(0)`.
std::string printForms(const cost::Layout &layout, unsigned numAxes);

/// Takes a line `word rest` of a file into the record. Nothing if it is none of
/// a record's, else whether it could be read.
std::optional<bool> parseLine(llvm::StringRef line, unsigned number,
                              PlanRecord &record);

/// The plan whose signatures are those of `graph` and whose other decisions are
/// those of the record; if that is unstaged, as `convertPlan` chooses. Fails
/// with an error that names the line of `file`.
mlir::FailureOr<cost::Plan> readDecisions(const StepGraph &graph,
                                          const Extraction &extraction,
                                          const PlanRecord &record,
                                          llvm::StringRef file);

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_PLANRECORD_H
