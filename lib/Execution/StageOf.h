//===- StageOf.h - last stage of IR -----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_EXECUTION_STAGEOF_H
#define TANDEM_EXECUTION_STAGEOF_H

#include "mlir/IR/BuiltinOps.h"
#include "tandem/Pipelines/Pipelines.h"

namespace tandem {

/// The stage that `module` has left, by the operators, types and facts that it
/// holds and only that stage leaves; whether they are right is its verifier's
/// matter. Behind `localize` and `duplex` IR without a time axis is the same:
/// it is of `named` if that is one of the two. Null if there is no @step.
const Stage *findStageOf(mlir::ModuleOp module, const Stage *named);

} // namespace tandem

#endif // TANDEM_EXECUTION_STAGEOF_H
