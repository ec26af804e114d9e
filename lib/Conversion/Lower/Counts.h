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

/// Bytes of one element in memory: i1 takes one.
int64_t getElementBytes(mlir::Type type);

/// Bytes of the buffers.
int64_t countBytes(mlir::ValueRange buffers);

/// Two per multiplication and addition.
int64_t countFlops(sched::MatmulOp op);

/// The sum over the operators (`getFlops`).
int64_t countFlops(mlir::func::FuncOp kernel);

/// Bytes that one rank sends in a collective, by the ring algorithms.
int64_t countSentBytes(mlir::Operation *collective);

} // namespace tandem::lower

#endif // TANDEM_LIB_CONVERSION_LOWER_COUNTS_H
