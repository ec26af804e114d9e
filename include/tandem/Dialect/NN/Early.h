//===- Early.h - clones for the segment behind ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_NN_EARLY_H
#define TANDEM_DIALECT_NN_EARLY_H

#include "mlir/IR/Operation.h"

namespace tandem::nn {

/// Beside `nn.again`, on a clone of `tandem-offer-recomputation` that is made
/// for clones of the segment behind.
inline constexpr llvm::StringLiteral kEarlyAttrName = "nn.early";

inline bool isEarly(mlir::Operation *op) { return op->hasAttr(kEarlyAttrName); }

} // namespace tandem::nn

#endif // TANDEM_DIALECT_NN_EARLY_H
