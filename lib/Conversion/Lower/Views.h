//===- Views.h - views that cost nothing ------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_LOWER_VIEWS_H
#define TANDEM_LIB_CONVERSION_LOWER_VIEWS_H

#include "mlir/IR/Operation.h"

namespace tandem::lower {

/// The `sched.view` that a free view (`FreeViews.h`) is, of the buffer of its
/// input.
mlir::Value createView(mlir::OpBuilder &builder, mlir::Operation *op,
                       mlir::Value buffer);

/// The buffer type of a tensor.
mlir::MemRefType getBufferType(mlir::Type tensor);

} // namespace tandem::lower

#endif // TANDEM_LIB_CONVERSION_LOWER_VIEWS_H
