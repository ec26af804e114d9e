//===- Changes.h - the changes of form that a plan implies ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_CHANGES_H
#define TANDEM_LIB_TRANSFORMS_PLAN_CHANGES_H

#include "StepGraph.h"

namespace tandem::plan {

/// A change of form of a value on one axis, made once for all users of a pass.
struct Change {
  unsigned value;
  PassKind pass;
  unsigned axis;
  spmd::AxisForm from, to;
  /// First operator that wants it; the number of operators for the return.
  unsigned user;
  /// How often it happens: once per strand, or once.
  int64_t count;
  /// Bytes, each time, of what a rank holds of the tensor before or after,
  /// whichever is more.
  double bytes;

  bool isCommunication(spmd::MeshAttr mesh) const {
    return !mesh.isTime(axis) && !from.isFull();
  }
  /// Strands wait for each other: any change over time that needs all of them,
  /// other than the sum of a gradient.
  bool isJoin(spmd::MeshAttr mesh) const {
    return mesh.isTime(axis) && !from.isFull() && pass != PassKind::Update;
  }
};

/// Rebuilds the graph, with its signatures, of a planned module that verifies.
StepGraph readPlannedGraph(mlir::ModuleOp module);

/// All changes, in the order of the values.
std::vector<Change> findChanges(const StepGraph &graph);

/// `all-reduce`, `reduce-scatter`, `all-gather`, `all-to-all` or `slice`.
llvm::StringRef getChangeName(const Change &change);

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_CHANGES_H
