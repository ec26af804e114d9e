//===- Gradients.h - gradients of parameters --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ANALYSIS_GRADIENTS_H
#define TANDEM_ANALYSIS_GRADIENTS_H

#include "tandem/Dialect/NN/NN.h"

namespace tandem {

/// Whether `op` is of the backward pass; null is not.
bool isBackward(mlir::Operation *op);

/// Whether `op` gives a gradient of bf16 the f32 of its parameter, and nobody
/// wants its terms added before. There are none of f16.
bool widensGradient(nn::ConvertOp op);

} // namespace tandem

#endif // TANDEM_ANALYSIS_GRADIENTS_H
