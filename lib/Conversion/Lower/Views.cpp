//===- Views.cpp - views that cost nothing --------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Views.h"
#include "tandem/Analysis/FreeViews.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/Sched/Sched.h"

using namespace mlir;

namespace tandem::lower {

/// The member of a rank in its group is a sum of coordinates times these.
static SmallVector<int64_t> getMemberStrides(spmd::LocalSliceOp slice) {
  spmd::MeshAttr mesh = spmd::getMesh(slice);
  SmallVector<int64_t> strides;
  int64_t stride = 1;
  for (Attribute axis : llvm::reverse(slice.getAxes())) {
    strides.push_back(stride);
    stride *= mesh.getSize(*mesh.lookup(cast<StringAttr>(axis).getValue()));
  }
  std::reverse(strides.begin(), strides.end());
  return strides;
}

MemRefType getBufferType(Type tensor) {
  auto type = cast<RankedTensorType>(tensor);
  return MemRefType::get(type.getShape(), type.getElementType());
}

Value createView(OpBuilder &builder, Operation *op, Value buffer) {
  int64_t offset = 0, perIteration = 0;
  ArrayAttr axes = builder.getArrayAttr({});
  SmallVector<int64_t> coefficients;
  if (auto enter = dyn_cast<spmd::EnterOp>(op)) {
    perIteration = enter.getResult().getType().getNumElements();
  } else if (auto view = dyn_cast<nn::StridedOpInterface>(op)) {
    offset = *getFreeOffset(view);
  } else if (auto slice = dyn_cast<spmd::LocalSliceOp>(op)) {
    axes = slice.getAxes();
    for (int64_t stride : getMemberStrides(slice))
      coefficients.push_back(stride *
                             slice.getResult().getType().getNumElements());
  }
  return sched::ViewOp::create(
      builder, op->getLoc(), getBufferType(op->getResult(0).getType()), buffer,
      offset, axes, coefficients, perIteration);
}

} // namespace tandem::lower
