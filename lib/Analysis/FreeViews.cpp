//===- FreeViews.cpp - views that cost nothing ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/FreeViews.h"
#include "tandem/Dialect/NN/Strides.h"
#include "tandem/Dialect/SPMD/SPMD.h"

using namespace mlir;
using namespace tandem;

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// Whether a part of `dim` is one run of elements.
static bool isMajor(Value value, int64_t dim) {
  return llvm::all_of(getShape(value).take_front(dim),
                      [](int64_t size) { return size == 1; });
}

std::optional<int64_t> tandem::getFreeOffset(nn::StridedOpInterface view) {
  int64_t offset = 0;
  Sizes strides = getContiguousStrides(getShape(view->getOperand(0)));
  if (!view.moveStrides(strides, offset))
    return std::nullopt;
  ArrayRef<int64_t> shape = getShape(view->getResult(0));
  for (auto [size, found, expected] :
       llvm::zip(shape, strides, getContiguousStrides(shape)))
    if (size != 1 && found != expected)
      return std::nullopt;
  return offset;
}

bool tandem::isFreeView(Operation *op) {
  if (auto view = dyn_cast<nn::StridedOpInterface>(op))
    return getFreeOffset(view).has_value();
  if (auto slice = dyn_cast<spmd::LocalSliceOp>(op))
    return isMajor(slice.getInput(), slice.getDim());
  return isa<spmd::EnterOp>(op);
}
