//===- Bytes.h - bytes of tensors, FLOPs of operators -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ANALYSIS_BYTES_H
#define TANDEM_ANALYSIS_BYTES_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace tandem {

/// Bytes of one element in a contiguous buffer; an i1 takes one byte.
int64_t getElementBytes(mlir::Type elementType);

/// Bytes of the tensor `type` by its shape, whatever its forms are.
int64_t getBytes(mlir::Type type);

/// Operations of `op` by the shapes in its types, those on integers too: two
/// per multiply-add of a product, else what the definition says per element of
/// its largest operand or result (`nn::WorkOpInterface`). The plan's costs and
/// a command's FLOPs are both this. What only moves elements has none.
double getFlops(mlir::Operation *op);

/// Bytes that `op` reads and writes by the shapes in its types.
double getTraffic(mlir::Operation *op);

} // namespace tandem

#endif // TANDEM_ANALYSIS_BYTES_H
