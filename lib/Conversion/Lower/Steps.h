//===- Steps.h - opening and closing steps ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_LOWER_STEPS_H
#define TANDEM_LIB_CONVERSION_LOWER_STEPS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Sched/Sched.h"

namespace tandem::lower {

/// The function with the training step; null, with an error on the module, if
/// there is none.
mlir::func::FuncOp getStepFunction(mlir::ModuleOp module);

/// Checks that the body of `function` is straight code on tensors, all of it in
/// steps. Reports the first thing that is not so, at its place.
mlir::LogicalResult verifySteps(mlir::func::FuncOp function);

/// Lets operators outside of a step use the values inside directly, in place of
/// the step's results, which have no uses afterwards. The IR is invalid until
/// `closeSteps`.
void openSteps(mlir::func::FuncOp function);

/// Erases operators without uses, and makes each step yield exactly what is
/// used outside of it.
void closeSteps(mlir::func::FuncOp function);

} // namespace tandem::lower

#endif // TANDEM_LIB_CONVERSION_LOWER_STEPS_H
