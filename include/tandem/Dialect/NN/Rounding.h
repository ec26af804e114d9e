//===- Rounding.h - mark of a model's own roundings -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_NN_ROUNDING_H
#define TANDEM_DIALECT_NN_ROUNDING_H

#include "llvm/ADT/StringRef.h"

namespace tandem {

/// On an `arith.truncf` that `nn.convert` asks for: its result is rounded, also
/// where it is widened again at once. Without it values that are rounded only
/// because they would be stored stay as they are within a kernel.
constexpr llvm::StringLiteral kRoundsAttr = "rounds";

} // namespace tandem

#endif // TANDEM_DIALECT_NN_ROUNDING_H
