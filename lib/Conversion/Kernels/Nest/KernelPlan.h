//===- KernelPlan.h - the steps of one kernel -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel, as linalg, becomes steps that run one after the other: nests of
// loops, and operators with a loop of their own. Most kernels are one nest.
// What flows from one step to another lies in memory.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_KERNELS_KERNELPLAN_H
#define TANDEM_LIB_CONVERSION_KERNELS_KERNELPLAN_H

#include "Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "tandem/Analysis/Nest.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

namespace tandem {

/// Whether the operator has a loop of its own (`cumsum`, `topk`, ...).
bool hasOwnLoop(mlir::Operation *op);
/// Whether to evaluate the body again costs more than to load its value.
bool isExpensive(mlir::Operation *op, const KernelLimits &limits);
bool hasReduction(mlir::Operation *op);

struct KernelPlan {
  struct Step {
    explicit Step(int64_t maxColumns) : nest(maxColumns) {}

    Nest nest;
    /// Set for an operator with a loop of its own.
    mlir::Operation *op = nullptr;
  };

  KernelPlan(const KernelTarget &target, mlir::func::FuncOp function);

  /// Whether the value is evaluated wherever it is needed: a cheap function of
  /// the kernel's arguments at any index.
  bool isFloating(mlir::Value value) const { return floating.contains(value); }
  /// The value whose memory `value` shares, which may be itself.
  mlir::Value resolve(mlir::Value value) const;
  /// What an operator with a loop of its own adds to; null: zeros.
  mlir::Value getBase(mlir::Operation *op) const { return bases.lookup(op); }

  mlir::func::FuncOp function;
  const KernelTarget &target;
  const Device &device; ///< the target's
  std::vector<Step> steps;
  /// Values that must lie in memory, arguments excluded.
  llvm::SetVector<mlir::Value> inMemory;

private:
  void findBases();
  void place(mlir::Operation *op);
  void placeGeneric(mlir::linalg::GenericOp op);
  void placeReshape(mlir::Operation *op);
  void placeOwnLoop(mlir::Operation *op);
  bool canFloat(mlir::Operation *op) const;
  /// Whether the value is an argument, a constant in memory, or floating.
  bool isFree(mlir::Value value) const;
  void requireMemory(mlir::Value value);
  /// The first step at which `op` could run.
  int getFirstStep(mlir::Operation *op) const;
  void addToNest(const LoopOp &op, int first);
  bool canShare(const Nest &nest, mlir::Operation *op) const;

  llvm::DenseMap<mlir::Value, int> stepOf;
  llvm::DenseMap<mlir::Value, mlir::Value> aliases;
  llvm::DenseMap<mlir::Operation *, mlir::Value> bases;
  llvm::DenseSet<mlir::Value> floating;
  llvm::DenseMap<mlir::Value, int> floatingCost;
  llvm::DenseSet<mlir::Value> pinned; ///< returned, or read by an own loop
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_KERNELS_KERNELPLAN_H
