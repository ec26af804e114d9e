//===- Decisions.h - decisions beside signatures ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A plan is the forms and signatures that a StepGraph holds, and these
// decisions: when things happen and which copies are kept. They are numbers of
// the graph, from the search to the IR (WriteDecisions.h); text is made of them
// at the edge of a plan file only:
//
//   search tandem
//   pins layers.*.w1:model=gather(1)
//   cluster h100-8x8
//   cost 0.123 s
//   bound 0.12 s proof 8f14e45fceea167a
//   peak 1234567 B
//   stage operator 17
//   stage operator 24: ahead, in turn
//   copy argument 3: 0 forward kept full, gather(0) -> full, full
//   wait operator 55: 0 gather(0), full in 20/1 0.25, 21/0 1
//
// A copy that is made of the value itself by one change has no line. Where a
// collective is sent (`in ...`) follows from prices, as cost and peak do; it is
// there so that a plan can be followed without any, and may be left out.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_DECISIONS_H
#define TANDEM_LIB_TRANSFORMS_PLAN_DECISIONS_H

#include "OperatorGroups.h"
#include "tandem/Cost/Plan.h"

namespace tandem::plan {

/// A stage, but for the first one.
struct StageBegin {
  Part part;
  /// Its collectives do not begin beside the computation of the stages before
  /// (`in_turn`), which follows from the memory limit.
  bool isInTurn = false;
  /// What it makes again of what was there is computed beside its collectives
  /// (`spmd.ahead`).
  bool isAhead = false;
  /// Of the plan file, 0 where none was read; likewise below.
  unsigned line = 0;
};

/// How operators of a pass get a value in forms that it was not made in.
struct PlannedCopy {
  unsigned value = 0;
  PassKind pass = PassKind::Forward;
  /// The next pass that uses the value takes the same copy.
  bool isKept = false;
  /// The forms on the way, at least two, one change each.
  llvm::SmallVector<spmd::Forms, 2> path;
  unsigned line = 0;

  /// As in IR and in lines, but for the number of the result.
  spmd::Copy getCopy() const {
    return {stringifyPassKind(pass).str(), isKept, path};
  }
};

/// A gradient's copy for updates whose collectives wait.
struct PlannedWait : spmd::Wait {
  unsigned value = 0;
  unsigned line = 0;
};

struct Decisions {
  //--- What was found, and how. `search` is empty for a preset, `cluster`
  //--- without costs; `pins` as `--pin` has them.
  std::string search, cluster, pins;
  double cost = 0, bound = 0; // s
  /// Of which problem the bound was proven (`cost::getProofHash`).
  std::string proof;
  int64_t peak = 0; // B
  /// Of a file: whether values of its step may wait on the host.
  bool offersHost = false;
  /// What a device may hold, in bytes, if there is a limit and the plan fits.
  std::optional<int64_t> memoryLimit;

  //--- What is followed.
  std::vector<StageBegin> stages;
  std::vector<PlannedCopy> copies;
  std::vector<PlannedWait> waits;

  /// Without stages, be it that somebody left them out to have them chosen.
  bool isUnstaged() const {
    return stages.empty() &&
           (search.empty() || (copies.empty() && waits.empty()));
  }
};

/// The stage of each part of a step.
class StageNumbers {
public:
  StageNumbers(const StepGraph &graph, llvm::ArrayRef<StageBegin> stages);

  unsigned get(Part part) const { return stages[getNumber(part)]; }
  unsigned getOfGroup(unsigned group) const {
    return get({Part::Kind::Group, group});
  }
  unsigned getFirstUpdate() const { return firstUpdate; }

private:
  /// In the order arguments, groups, results.
  unsigned getNumber(Part part) const;

  unsigned numArguments, numGroups, firstUpdate = 0;
  std::vector<unsigned> stages;
};

//===----------------------------------------------------------------------===//
// From and to a plan of the search problem
//===----------------------------------------------------------------------===//

struct Extraction;

/// `plan` has been derived.
Decisions makeDecisions(const Extraction &extraction, const cost::Plan &plan);

/// The copies that `plan` keeps for a later pass, made of what their producers
/// make.
std::vector<PlannedCopy> listKept(const Extraction &extraction,
                                  const cost::Plan &plan);

/// The plan whose signatures are those of `graph` and whose other decisions are
/// given; if they are unstaged, as `search::completePlan` chooses. Fails with
/// an error that names the line of `file`.
mlir::FailureOr<cost::Plan> makePlan(const StepGraph &graph,
                                     const Extraction &extraction,
                                     const Decisions &decisions,
                                     llvm::StringRef file);

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_DECISIONS_H
