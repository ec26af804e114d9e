//===- Origins.h - operators of the step that values come from --*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel or a call of a library does the work of several operators. Its
// location says of which of them its results are the values, so that a command
// can be compared with the operators of an earlier stage.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ANALYSIS_ORIGINS_H
#define TANDEM_ANALYSIS_ORIGINS_H

#include "mlir/IR/Operation.h"

namespace tandem {

/// The result of an operator of the step that a value is.
struct Origin {
  int64_t id = -1; ///< `nn.id`; -1: of none.
  int64_t result = 0;
};

/// That of a value inside of a step, whoever makes it now.
Origin getOrigin(mlir::Value value);

/// `location` with one origin for each result, in place of those that it has.
mlir::Location setOrigins(mlir::Location location,
                          llvm::ArrayRef<Origin> origins);

/// What setOrigins() left; none where locations were dropped.
llvm::SmallVector<Origin> getOrigins(mlir::Location location);

/// From now on `made`, a result of an operator, is what `old` was.
void takeOrigin(mlir::Value made, mlir::Value old);

} // namespace tandem

#endif // TANDEM_ANALYSIS_ORIGINS_H
