//===- PlannedCopies.h - the copies that a plan names -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// On what makes a value, the plan stage writes
//
//  * `spmd.copies`: copies that are taken from elsewhere than the value itself,
//    made by several changes, or kept for a later pass. One text for each,
//    `RESULT PASS [kept] FORMS -> ... -> FORMS`, with a form per axis;
//  * `spmd.waits`: copies of gradients whose collectives wait (`kWaitGrammar`
//    in PlannedOrder.h).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_SHARD_PLANNEDCOPIES_H
#define TANDEM_LIB_TRANSFORMS_SHARD_PLANNEDCOPIES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Analysis/PlannedOrder.h"
#include "tandem/Dialect/SPMD/SPMD.h"

namespace tandem {

/// A copy of a value in other forms.
struct PlannedCopy {
  std::string pass;
  bool isKept = false;
  /// The forms that it has on the way, at least two.
  llvm::SmallVector<spmd::Forms, 2> path;
};

/// A copy whose collectives wait.
struct PlannedWait {
  spmd::Forms forms;
  /// Empty if the plan does not say.
  PlannedPieces pieces;
};

class PlannedCopies {
public:
  /// Takes the attributes off `step`. Reports what cannot be read.
  mlir::LogicalResult read(mlir::func::FuncOp step, spmd::MeshAttr mesh);

  llvm::ArrayRef<PlannedCopy> getCopies(mlir::Value value) const;
  /// The copy for `pass` in `forms`; null if there is none.
  const PlannedCopy *find(mlir::Value value, const spmd::Forms &forms,
                          llvm::StringRef pass) const;
  const PlannedWait *findWait(mlir::Value value,
                              const spmd::Forms &forms) const;

private:
  mlir::LogicalResult readCopies(mlir::Operation *op, mlir::Attribute attribute,
                                 mlir::ValueRange values);
  mlir::LogicalResult readWaits(mlir::Operation *op, mlir::Attribute attribute,
                                mlir::ValueRange values);

  spmd::MeshAttr mesh;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<PlannedCopy, 1>> copies;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<PlannedWait, 1>> waits;
};

} // namespace tandem

#endif // TANDEM_LIB_TRANSFORMS_SHARD_PLANNEDCOPIES_H
