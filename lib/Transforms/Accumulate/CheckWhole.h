//===- CheckWhole.h - operators on the whole batch --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_ACCUMULATE_CHECKWHOLE_H
#define TANDEM_LIB_TRANSFORMS_ACCUMULATE_CHECKWHOLE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tandem {

/// Warns of products of the batch that `isOnce` says to run once, not in each
/// of `count` iterations: their memory is that of the whole batch. Fails where
/// nothing is cut.
llvm::LogicalResult
checkWhole(mlir::func::FuncOp step, int64_t count,
           llvm::function_ref<bool(mlir::Operation *)> isOnce);

} // namespace tandem

#endif // TANDEM_LIB_TRANSFORMS_ACCUMULATE_CHECKWHOLE_H
