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
//   cluster h100-8x8
//   cost 0.123 s
//   bound 0.12 s
//   peak 1234567 B
//   stage operator 17
//   copy argument 3: 0 forward kept full, gather(0) -> full, full
//   wait operator 55: 0 gather(0), full in 20/1 0.25, 21/0 1
//
// `stage` names what a stage begins with (the first one has no line). The texts
// of `copy` and `wait` are those of `spmd.copies` and `spmd.waits` (Plan.h). A
// copy that is made of the value itself by one change has no line.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_PLANRECORD_H
#define TANDEM_LIB_TRANSFORMS_PLAN_PLANRECORD_H

#include "ApplyPlan.h"

namespace tandem::plan {

struct PlanRecord {
  /// A line of a file: what it is about (`operator 17`), what it says, and its
  /// number, 0 for one that was not read.
  struct Entry {
    std::string place, text;
    unsigned line = 0;
  };

  /// The algorithm, empty for a preset; the cluster, empty without costs.
  std::string search, cluster;
  double cost = 0, bound = 0; // s
  int64_t peak = 0;           // B
  std::vector<Entry> stages, copies, waits;

  /// A search's plan whose stages somebody left out, to have them chosen.
  bool isUnstaged() const {
    return !search.empty() && stages.empty() && copies.empty() && waits.empty();
  }
};

/// `plan` has been derived.
PlanRecord makeRecord(const StepGraph &graph, const Extraction &extraction,
                      const cost::Plan &plan);

/// A copy of a value; `path` are the forms that it has on the way.
struct CopyText {
  unsigned value = 0;
  cost::Pass pass = cost::Pass::Update;
  bool isKept = false;
  llvm::SmallVector<cost::Layout, 2> path;
};

/// Reads a place of a record: `operator 17`, `argument 3`, `result 0`.
class PlaceReader {
public:
  /// Errors name the line of `file`.
  PlaceReader(const StepGraph &graph, llvm::StringRef file);

  mlir::InFlightDiagnostic emitError(const PlanRecord::Entry &entry) const;
  /// Kind and number; the number of an operator is its index in the graph.
  mlir::FailureOr<std::pair<llvm::StringRef, unsigned>>
  parsePlace(const PlanRecord::Entry &entry) const;
  /// The value that `entry` is about; its text begins with the result's number.
  mlir::FailureOr<unsigned> parseValue(const PlanRecord::Entry &entry) const;
  /// `RESULT PASS [kept] FORMS -> ... -> FORMS`, with a form per axis.
  mlir::FailureOr<CopyText> parseCopy(const PlanRecord::Entry &entry) const;
  /// `RESULT FORMS [in STAGE/STRAND SHARE, ...]`: the copy that waits.
  mlir::FailureOr<CopyText> parseWait(const PlanRecord::Entry &entry) const;

private:
  bool parsePath(llvm::StringRef text, CopyText &copy) const;
  mlir::LogicalResult emitExpected(const PlanRecord::Entry &entry,
                                   llvm::StringRef expected) const;

  const StepGraph &graph;
  llvm::StringRef file;
  llvm::DenseMap<int64_t, unsigned> byId;
};

void print(const PlanRecord &record, llvm::raw_ostream &os);

/// Takes a line `word rest` of a file into the record. Nothing if it is none of
/// a record's, else whether it could be read.
std::optional<bool> parseLine(llvm::StringRef line, unsigned number,
                              PlanRecord &record);

/// The plan whose signatures are those of `graph` and whose other decisions are
/// those of the record; without stages in it, as `convertPlan` chooses. Fails
/// with an error that names the line of `file`.
mlir::FailureOr<cost::Plan> readDecisions(const StepGraph &graph,
                                          const Extraction &extraction,
                                          const PlanRecord &record,
                                          llvm::StringRef file);

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_PLANRECORD_H
