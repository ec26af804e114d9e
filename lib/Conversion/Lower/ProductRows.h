//===- ProductRows.h - products and their consumers' rows -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_LOWER_PRODUCTROWS_H
#define TANDEM_LIB_CONVERSION_LOWER_PRODUCTROWS_H

#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/Sched/Sched.h"

namespace tandem::lower {

/// Where the elements of `value` come from, behind reshapes.
mlir::Value skipReshapes(mlir::Value value);

/// The product of contiguous rows, without a batch, that `term` is a reshape
/// of; null if there is none, or it does more than to multiply and to add to a
/// sum. With `isOwn` nobody else reads it.
sched::MatmulOp getRowsProduct(mlir::Value term, bool isOwn);

/// Whether `first` is done when `second` begins: it stands before it in one
/// step, or in an earlier step of the same queue and the same loop. Steps are
/// open.
bool isDoneBefore(mlir::Operation *first, mlir::Operation *second);

/// Whether `value` has an element for each of the product's columns, of its
/// type, and is there for it.
bool isBiasOf(mlir::Value value, sched::MatmulOp product);

/// Whether libraries read `value`, or views of it, and nothing else does but
/// operators that `isFree` is true for.
bool isForLibraries(
    mlir::Value value, llvm::function_ref<bool(mlir::Operation *)> isFree =
                           [](auto *) { return false; });

} // namespace tandem::lower

#endif // TANDEM_LIB_CONVERSION_LOWER_PRODUCTROWS_H
