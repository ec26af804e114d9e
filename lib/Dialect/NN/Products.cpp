//===- Products.cpp - matrix products by libraries ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/NN.h"

using namespace mlir;
using namespace tandem::nn;

/// Those of the result, and the one that is summed.
SmallVector<int64_t> MatmulOp::getLoopSizes() {
  SmallVector<int64_t> sizes(getType().getShape());
  sizes.push_back(getLhs().getType().getShape().back());
  return sizes;
}

std::optional<int64_t> MatmulOp::getSummedDim(unsigned number) {
  return getType().getRank() - (number == 0 ? 1 : 2);
}

bool MatmulOp::readsByStrides(unsigned) { return true; }

bool MatmulOp::canWiden() { return true; }

LogicalResult MatmulOp::verifyLibraryTypes() {
  Type element = getLhs().getType().getElementType();
  if (element.isF64() || element.isF32() || element.isBF16())
    return success();
  return (*this)->emitError("matrix product of ")
         << element << ", expected f64, f32 or bf16";
}
