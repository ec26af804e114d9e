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
#include "llvm/ADT/TypeSwitch.h"

namespace tandem::lower {

/// The function with the training step; null, with an error on the module, if
/// there is none.
mlir::func::FuncOp getStepFunction(mlir::ModuleOp module);

/// Checks that the body of `function` is straight code on tensors, all of it in
/// steps. Reports the first thing that is not so, at its place.
mlir::LogicalResult verifySteps(mlir::func::FuncOp function);

/// Calls `rewrite` with the step of `module` while its steps are open:
/// operators outside of a step use the values inside directly, in place of the
/// step's results, which have no uses. Afterwards operators without uses are
/// gone, and each step yields exactly what is used outside of it. Fails, with
/// an error, if there is no such function, or `verifySteps` fails.
mlir::LogicalResult
rewriteSteps(mlir::ModuleOp module,
             llvm::function_ref<void(mlir::func::FuncOp)> rewrite);

/// Calls `rewrite`, which may erase it, with each operator of the given types,
/// in the order of the text.
template <typename... OpTs, typename Rewrite>
void rewriteEach(mlir::func::FuncOp function, Rewrite rewrite) {
  llvm::SmallVector<mlir::Operation *> found;
  function.walk([&](mlir::Operation *op) {
    if (mlir::isa<OpTs...>(op))
      found.push_back(op);
  });
  for (mlir::Operation *op : found)
    llvm::TypeSwitch<mlir::Operation *>(op).Case<OpTs...>(rewrite);
}

} // namespace tandem::lower

#endif // TANDEM_LIB_CONVERSION_LOWER_STEPS_H
