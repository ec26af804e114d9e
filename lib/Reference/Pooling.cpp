//===- Pooling.cpp - max pooling ------------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Evaluators.h"
#include <cmath>

using namespace mlir;
using namespace tandem::nn;

namespace tandem::reference {

LogicalResult run(MaxPoolOp op, Call &call) {
  const Tensor &input = call.operand(0);
  Tensor &values = call.result(0), &indices = call.result(1);
  ArrayRef<int64_t> kernel = op.getKernel();
  size_t dims = kernel.size();
  ArrayRef<int64_t> sizes = input.getShape().take_back(dims);
  int64_t imageSize = getNumElements(sizes);
  int64_t windows = getNumElements(values.getShape().take_back(dims));
  forEachIndex(values.getShape(), [&](ArrayRef<int64_t> at, int64_t result) {
    ArrayRef<int64_t> window = at.take_back(dims);
    int64_t image = result / windows * imageSize, best = -1;
    forEachIndex(kernel, [&](ArrayRef<int64_t> k, int64_t) {
      int64_t index = 0;
      for (size_t dim = 0; dim < dims; ++dim) {
        int64_t x = op.getStride()[dim] * window[dim] +
                    op.getDilation()[dim] * k[dim] - op.getPadding()[dim];
        if (x < 0 || x >= sizes[dim])
          return;
        index = index * sizes[dim] + x;
      }
      double value = input.getDouble(image + index);
      if (best < 0 || std::isnan(value) ||
          value > input.getDouble(image + best))
        best = index;
    });
    values.copyElement(result, input, image + best);
    indices.setInteger(result, best);
  });
  return success();
}

} // namespace tandem::reference
