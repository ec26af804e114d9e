//===- StepFacts.h - facts that every stage keeps ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Facts that every stage keeps, and without which a later one would go on and
// train something else: each exit looks at them again. Functions other than
// `@step` need none.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ANALYSIS_STEPFACTS_H
#define TANDEM_ANALYSIS_STEPFACTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tandem {

/// Checks the arguments and results of `@step`: each has a role, an argument a
/// name, a state belongs to a parameter, a result that is no output updates
/// an argument, and two results never the same one.
mlir::LogicalResult verifyDeclared(mlir::func::FuncOp step);

/// Checks that each operator of nn and spmd in `@step`, bodies of `sched.step`
/// included, has its pass, but for parts of a change of form.
mlir::LogicalResult verifyPasses(mlir::func::FuncOp step);

/// Checks that the operators of `step`, and its `sched.step`s, are in strands
/// of the module's mesh, and at all points of a time axis if at any but 0.
mlir::LogicalResult verifyStrands(mlir::func::FuncOp step);

} // namespace tandem

#endif // TANDEM_ANALYSIS_STEPFACTS_H
