//===- Residence.h - where the values of a step lie -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which values have memory of their own in what `lower` makes of a step: not
// those inside of a kernel, nor free views.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_RESIDENCE_H
#define TANDEM_LIB_TRANSFORMS_PLAN_RESIDENCE_H

#include "StepGraph.h"
#include "tandem/Analysis/Fusion.h"

namespace tandem::plan {

/// What copies of operators and values stand for.
struct CloneMap {
  /// Places in the list of operators that were copied.
  llvm::DenseMap<mlir::Operation *, unsigned> members;
  llvm::DenseMap<mlir::Value, unsigned> values;
};

/// Copies `ops` into `block`, which returns the values `returned`, so that
/// `lower`'s grouping can take them apart. What they read and do not make are
/// arguments of the block. Of a choice there is operand `source`, or the last
/// one.
void cloneOperators(const StepGraph &graph, llvm::ArrayRef<unsigned> ops,
                    llvm::ArrayRef<unsigned> returned, mlir::Block &block,
                    CloneMap &clones, unsigned source = 0);

/// Whether `op` makes the same bytes under another type, or strides for a
/// library.
bool isFree(mlir::Operation *op);

/// Where values lie if each pass is computed as one part, without changes of
/// form. Updates are kernels of their own: what goes from one to another lies
/// in memory. What may be left out is looked at where it is taken; all else as
/// if all choices took what was saved.
struct Residence {
  explicit Residence(const StepGraph &graph);

  /// Per value: the operand of which it is a free view, or -1.
  std::vector<int> viewOf;
  /// Per value: whether one kernel makes it and alone reads it.
  std::vector<bool> isInKernel;
  /// Per value that only choices and clones read outside of the kernel that
  /// makes it: it is written for those that a plan has.
  std::vector<bool> isHeldIfRead;

private:
  void addPart(const StepGraph &graph, llvm::ArrayRef<unsigned> ops,
               unsigned source);
  void addUnread(const StepGraph &graph, llvm::ArrayRef<unsigned> ops);

  /// Per value: whether others than one kernel read it.
  std::vector<bool> isOutside;
};

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_RESIDENCE_H
