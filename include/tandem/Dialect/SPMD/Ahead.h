//===- Ahead.h - stages that recompute beside collectives -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SPMD_AHEAD_H
#define TANDEM_DIALECT_SPMD_AHEAD_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tandem::spmd {

/// On the function, from `plan` to `schedule`: stages whose operators with
/// `nn.again` are computed beside its collectives, as far as they read what was
/// made before.
inline constexpr llvm::StringLiteral kAheadAttrName = "spmd.ahead";

inline llvm::SmallVector<int64_t> getAhead(mlir::func::FuncOp step) {
  auto stages = step->getAttrOfType<mlir::DenseI64ArrayAttr>(kAheadAttrName);
  return stages ? llvm::to_vector(stages.asArrayRef())
                : llvm::SmallVector<int64_t>();
}

/// Sets the attribute, or removes it.
inline void setAhead(mlir::func::FuncOp step, llvm::ArrayRef<int64_t> stages) {
  if (stages.empty())
    step->removeAttr(kAheadAttrName);
  else
    step->setAttr(kAheadAttrName,
                  mlir::DenseI64ArrayAttr::get(step.getContext(), stages));
}

} // namespace tandem::spmd

#endif // TANDEM_DIALECT_SPMD_AHEAD_H
