//===- Gradients.cpp - gradients of parameters ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/Gradients.h"

using namespace mlir;
using namespace tandem;

bool tandem::isBackward(Operation *op) {
  return op && nn::getPass(op) == nn::PassKind::Backward;
}

bool tandem::widensGradient(nn::ConvertOp op) {
  return isBackward(op) &&
         getElementTypeOrSelf(op.getInput().getType()).isBF16() &&
         getElementTypeOrSelf(op.getResult().getType()).isF32() &&
         !op.getSumsFirst();
}
