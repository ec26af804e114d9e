//===- Views.cpp - views that cost nothing --------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Views.h"
#include "StridedView.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/Sched/Sched.h"

using namespace mlir;

namespace tandem::lower {

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// Whether a part of `dim` is one run of elements.
static bool isMajor(Value value, int64_t dim) {
  return llvm::all_of(getShape(value).take_front(dim),
                      [](int64_t size) { return size == 1; });
}

/// Where the result of a view of a row-major tensor begins in it, if it is one
/// run of elements.
static std::optional<int64_t> getOffset(nn::StridedOpInterface view) {
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

bool isFreeView(Operation *op) {
  if (auto view = dyn_cast<nn::StridedOpInterface>(op))
    return getOffset(view).has_value();
  if (auto slice = dyn_cast<spmd::LocalSliceOp>(op))
    return isMajor(slice.getInput(), slice.getDim());
  return isa<spmd::EnterOp>(op);
}

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
    offset = *getOffset(view);
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
