//===- Loops.h - operators per loop of accumulation -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From the accumulate stage on a step may have loops: operators with the same
// number in `spmd.loop` run together, `spmd.iterations` times, and loops run in
// the order of their numbers.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ANALYSIS_LOOPS_H
#define TANDEM_ANALYSIS_LOOPS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace tandem {

/// When each operator of a block runs: loop k is segment 2k + 1, and what runs
/// once is in the last segment before its first reader, so that it is made
/// where it is needed: 0 in front of all loops.
llvm::DenseMap<mlir::Operation *, int64_t> getSegments(mlir::Block &block);

/// Checks what loops rely on, in a step that is scheduled as well: what enters
/// a loop, leaves it or counts iterations is in one; what is made in a loop is
/// read there, or, if it is carried, behind it; loops read arguments and what
/// is made in front of them.
mlir::LogicalResult verifyLoops(mlir::func::FuncOp step);

} // namespace tandem

#endif // TANDEM_ANALYSIS_LOOPS_H
