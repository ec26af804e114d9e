//===- PlannedCopies.h - planned copies -------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_SHARD_PLANNEDCOPIES_H
#define TANDEM_LIB_TRANSFORMS_SHARD_PLANNEDCOPIES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/NN/NN.h"

namespace tandem {

/// The copies of a step's values, and those whose collectives wait.
class PlannedCopies {
public:
  /// Fails with an error where a copy is of no result, or has no form for each
  /// axis of the mesh.
  mlir::LogicalResult read(mlir::func::FuncOp step, spmd::MeshAttr mesh);

  llvm::ArrayRef<spmd::Copy> getCopies(mlir::Value value) const;
  /// The copy for `pass` in `forms`; null if there is none.
  const spmd::Copy *find(mlir::Value value, const spmd::Forms &forms,
                         std::optional<nn::PassKind> pass) const;
  const spmd::Wait *findWait(mlir::Value value, const spmd::Forms &forms) const;

private:
  mlir::LogicalResult add(mlir::Operation *op, mlir::ValueRange values,
                          const spmd::Planned &planned, spmd::MeshAttr mesh);

  llvm::DenseMap<mlir::Value, llvm::SmallVector<spmd::Copy, 1>> copies;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<spmd::Wait, 1>> waits;
};

} // namespace tandem

#endif // TANDEM_LIB_TRANSFORMS_SHARD_PLANNEDCOPIES_H
