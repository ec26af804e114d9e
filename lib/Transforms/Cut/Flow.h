//===- Flow.h - what the data flows through ---------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_CUT_FLOW_H
#define TANDEM_LIB_TRANSFORMS_CUT_FLOW_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tandem {

/// Whether `op` is of the forward pass, in a loop or not.
bool isForward(mlir::Operation &op);

/// The value of which `value` is a view, in another type or layout, or the copy
/// of an argument that lies on the host.
mlir::Value skipViews(mlir::Value value);

/// What of the forward pass depends on an input of the step, with the inputs.
llvm::DenseSet<mlir::Value> findOfData(mlir::func::FuncOp step);

} // namespace tandem

#endif // TANDEM_LIB_TRANSFORMS_CUT_FLOW_H
