//===- Counts.h - FLOPs and bytes of commands -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_LOWER_COUNTS_H
#define TANDEM_LIB_CONVERSION_LOWER_COUNTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Sched/Sched.h"

namespace tandem::lower {

using sched::countBytes;
using sched::getElementBytes;

/// The sum over the operators (`getFlops`).
int64_t countFlops(mlir::func::FuncOp kernel);

/// Bytes that a kernel reads and writes in memory.
int64_t countTraffic(mlir::func::FuncOp kernel);
/// Of these, what it does not touch where it adds rows to result `result` in
/// place: the other rows, read and written.
int64_t countUntouched(mlir::func::FuncOp kernel, unsigned result);

/// Bytes that one rank sends in a collective, by the ring algorithms.
int64_t countSentBytes(mlir::Operation *collective);

} // namespace tandem::lower

#endif // TANDEM_LIB_CONVERSION_LOWER_COUNTS_H
