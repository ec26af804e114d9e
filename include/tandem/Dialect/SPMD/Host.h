//===- Host.h - stored values in the host's memory --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SPMD_HOST_H
#define TANDEM_DIALECT_SPMD_HOST_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tandem::spmd {

/// On an argument, from `plan` on: it lies in the host's memory between steps,
/// and so does its new value. Up to `schedule` its readers read it as any other
/// argument; from then on they read a copy (`sched.from_host`).
inline constexpr llvm::StringLiteral kHostAttrName = "spmd.host";

/// On the module, in front of `plan`: the bytes of values, whole, that may wait
/// there for the backward pass. Without it all may.
inline constexpr llvm::StringLiteral kSentLimitAttrName = "spmd.sent_limit";

inline bool isOnHost(mlir::func::FuncOp step, unsigned argument) {
  return step.getArgAttr(argument, kHostAttrName) != nullptr;
}

/// Whether `value` is an argument of `step` that lies on the host.
inline bool isOnHost(mlir::func::FuncOp step, mlir::Value value) {
  auto argument = mlir::dyn_cast<mlir::BlockArgument>(value);
  return argument && argument.getOwner() == &step.getBody().front() &&
         isOnHost(step, argument.getArgNumber());
}

inline bool hasHostArguments(mlir::func::FuncOp step) {
  for (unsigned i = 0; i < step.getNumArguments(); ++i)
    if (isOnHost(step, i))
      return true;
  return false;
}

} // namespace tandem::spmd

#endif // TANDEM_DIALECT_SPMD_HOST_H
