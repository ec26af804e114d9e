//===- Scalars.h - an elementwise operator on one element -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_NNTOLINALG_SCALARS_H
#define TANDEM_LIB_CONVERSION_NNTOLINALG_SCALARS_H

#include "mlir/IR/Builders.h"

namespace tandem {

/// The type in which values stored as `type` are computed: f32 for bf16 and
/// f16, else `type` itself.
mlir::Type getComputeType(mlir::Type type);

/// `value` widened from its storage type, or rounded to it.
mlir::Value widen(mlir::OpBuilder &builder, mlir::Location loc,
                  mlir::Value value);
mlir::Value narrow(mlir::OpBuilder &builder, mlir::Location loc,
                   mlir::Value value, mlir::Type stored);

/// Changes the type of a scalar as `nn.convert` says.
mlir::Value convertScalar(mlir::OpBuilder &builder, mlir::Location loc,
                          mlir::Value value, mlir::Type to);

mlir::Value constantScalar(mlir::OpBuilder &builder, mlir::Location loc,
                           mlir::Type type, double value);

/// Emits the elementwise operator `op` on widened scalars. Null where the
/// operator has no meaning for their type.
mlir::Value emitScalar(mlir::OpBuilder &builder, mlir::Operation *op,
                       mlir::ValueRange args);

/// The random bits of element `index` (i64), as `nn.philox` says.
mlir::Value emitPhilox(mlir::OpBuilder &builder, mlir::Location loc,
                       mlir::Value index, mlir::Value seed, mlir::Value step,
                       int64_t ordinal);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_NNTOLINALG_SCALARS_H
