//===- Roles.h - roles of operators in a schedule ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_SCHEDULE_ROLES_H
#define TANDEM_TRANSFORMS_SCHEDULE_ROLES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/NN/NN.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace tandem {

using spmd::isCollective;
/// Whether `op` only moves data on a device or adds the terms of strands: what
/// changes of form are made of beside collectives.
bool isMove(mlir::Operation *op);
/// Whether a plan says in which stage operators of `step` run.
bool isPlanned(mlir::func::FuncOp step);
using spmd::isSource;
/// Whether `op` belongs to the pass `update`.
bool isUpdate(mlir::Operation *op);
using nn::getStrand;
/// Of the `seconds` of a collective, those that it takes whatever its size:
/// each of its pieces pays them.
double getLatency(mlir::Operation *collective, double seconds);
/// The operator that makes the loss; null if there is none.
mlir::Operation *findLoss(mlir::func::FuncOp step);

/// What the operators of a step, or those of one of its segments
/// (Analysis/Loops.h), are to its schedule.
struct Roles {
  explicit Roles(llvm::ArrayRef<mlir::Operation *> ops);

  /// Collectives that only updates (or results) need.
  llvm::DenseSet<mlir::Operation *> waiting;
  /// Operators that run after the backward pass: those of the updates, and
  /// those that read what waited.
  llvm::DenseSet<mlir::Operation *> late;
  /// Collectives on nothing but arguments (a parameter is gathered), and what
  /// prepares their operands (a parameter is converted). They are placed where
  /// their result is read first.
  llvm::DenseSet<mlir::Operation *> ahead;

private:
  void findAhead();
  bool dropOneAhead();
  void findWaiting();
  void findLate();

  llvm::ArrayRef<mlir::Operation *> ops;
};

} // namespace tandem

#endif // TANDEM_TRANSFORMS_SCHEDULE_ROLES_H
