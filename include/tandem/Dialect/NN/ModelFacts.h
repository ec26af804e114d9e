//===- ModelFacts.h - what a step computes, and of what ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_NN_MODELFACTS_H
#define TANDEM_DIALECT_NN_MODELFACTS_H

#include "mlir/IR/BuiltinAttributes.h"

namespace tandem::nn {

/// On the module, from `import` on: operations of the model's products in a
/// step of the whole batch, by the type of their elements, as `{f32
/// = 1.0e+09}`. Each product of the forward and the backward pass counts once.
inline constexpr llvm::StringLiteral kModelFlopsAttrName = "nn.model_flops";

/// On the module, from `import` on: positions of all sequences of the batch.
inline constexpr llvm::StringLiteral kTokensAttrName = "nn.tokens";

} // namespace tandem::nn

#endif // TANDEM_DIALECT_NN_MODELFACTS_H
