//===- Loops.h - operators as loops -----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What an operator answers by `LoopOpInterface`: the loops that it may share
// with others in one kernel (`Analysis/Nest.h`).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SPMD_LOOPS_H
#define TANDEM_DIALECT_SPMD_LOOPS_H

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace tandem::spmd {

/// How an operator reads or writes a value.
struct LoopAccess {
  /// For a dimension: the loop that is its index, or one of these.
  enum {
    kUniform = -1,  ///< always 0
    kElsewhere = -2 ///< any other index
  };
  mlir::Value value;
  llvm::SmallVector<int> dims;
};

/// An operator as loops.
struct LoopOp {
  mlir::Operation *op = nullptr;
  llvm::SmallVector<int64_t> sizes;
  llvm::SmallVector<LoopAccess> inputs;
  /// A loop that does not occur in an output is reduced.
  llvm::SmallVector<LoopAccess> outputs;
  /// Loops that are run over several times.
  llvm::SmallVector<int> whole;
};

/// Loops over the shape of `value`; no inputs, no outputs.
LoopOp loopOver(mlir::Operation *op, mlir::Value value);

/// `value` as it broadcasts to the loops, from the last dimension on.
LoopAccess broadcastTo(mlir::Value value, const LoopOp &loops);

/// `value` by the loops in order, but at another index on `dims`.
LoopAccess accessInOrder(mlir::Value value,
                         llvm::ArrayRef<int64_t> elsewhere = {});

/// The attribute `dims` or `dim` of an operator; empty without one.
llvm::SmallVector<int64_t> getDimsOf(mlir::Operation *op);

/// Over the result; each operand is read in order, but for `dims` or `dim`.
std::optional<LoopOp> buildPieceLoops(mlir::Operation *op);

} // namespace tandem::spmd

#endif // TANDEM_DIALECT_SPMD_LOOPS_H
