//===- StridedView.h - views as strides -------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_LOWER_STRIDEDVIEW_H
#define TANDEM_LIB_CONVERSION_LOWER_STRIDEDVIEW_H

#include "mlir/IR/Value.h"
#include "tandem/Dialect/NN/Strides.h"

namespace tandem::lower {

/// A tensor as elements of another one: element (i, j, ...) is element
/// offset + i * strides[0] + j * strides[1] + ... of `source`, row-major, times
/// `scale`.
struct StridedView {
  mlir::Value source;
  int64_t offset = 0;
  Sizes strides;
  double scale = 1.0;
};

/// The constant by which `op` multiplies its operand number `operand`, if that
/// is all that it does.
std::optional<double> getScale(mlir::Operation *op, unsigned operand);

/// All ways to see `value` as a view of what views made it from, the value
/// itself first and the farthest source last.
llvm::SmallVector<StridedView> getViews(mlir::Value value);

/// Where `value`'s elements go in the end if its only use is a chain of
/// views that move elements and lose none, as far as strides can say it.
/// `source` is the last value of the chain, or `value` itself.
StridedView getDestination(mlir::Value value);

/// Whether a library reads or writes a value by this view of it.
using TakesView = llvm::function_ref<bool(const StridedView &, mlir::Value)>;

/// The farthest view of `value` that the library takes; `value` itself has to
/// be one.
StridedView chooseSource(mlir::Value value, TakesView takes);

/// `getDestination`, if the library takes it, else `value` itself.
StridedView chooseDestination(mlir::Value value, TakesView takes);

} // namespace tandem::lower

#endif // TANDEM_LIB_CONVERSION_LOWER_STRIDEDVIEW_H
