//===- StridedView.cpp - views as strides ---------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StridedView.h"
#include "tandem/Dialect/NN/NN.h"

using namespace mlir;

namespace tandem::lower {

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

std::optional<double> getScale(Operation *op, unsigned operand) {
  auto mul = dyn_cast<nn::MulOp>(op);
  if (!mul || !isa<FloatType>(mul.getResult().getType().getElementType()) ||
      mul->getOperand(operand).getType() != mul.getResult().getType())
    return std::nullopt;
  auto constant = mul->getOperand(1 - operand).getDefiningOp<nn::ConstantOp>();
  if (!constant || constant.getResult().getType().getNumElements() != 1)
    return std::nullopt;
  auto value = dyn_cast<DenseFPElementsAttr>(constant.getValue());
  if (!value)
    return std::nullopt;
  return (*value.begin()).convertToDouble();
}

/// The operand that `op` is a view of; none if it is no view.
static std::optional<unsigned> getViewedOperand(Operation *op) {
  if (isa_and_nonnull<nn::StridedOpInterface>(op))
    return 0;
  for (unsigned operand = 0; isa_and_nonnull<nn::MulOp>(op) && operand < 2;
       ++operand)
    if (getScale(op, operand))
      return operand;
  return std::nullopt;
}

/// `view` is one of `op`'s operand `viewed`; makes it one of its result.
static bool pushThrough(Operation *op, unsigned viewed, StridedView &view) {
  if (auto strided = dyn_cast<nn::StridedOpInterface>(op))
    return strided.moveStrides(view.strides, view.offset);
  view.scale *= *getScale(op, viewed);
  return true;
}

SmallVector<StridedView> getViews(Value value) {
  SmallVector<StridedView> views = {
      {value, 0, getContiguousStrides(getShape(value))}};
  Operation *op = value.getDefiningOp();
  std::optional<unsigned> viewed = getViewedOperand(op);
  if (!viewed)
    return views;
  for (StridedView view : getViews(op->getOperand(*viewed))) {
    if (!pushThrough(op, *viewed, view))
      break;
    views.push_back(std::move(view));
  }
  return views;
}

StridedView getDestination(Value value) {
  StridedView self = {value, 0, getContiguousStrides(getShape(value))};
  if (!value.hasOneUse())
    return self;
  OpOperand &use = *value.use_begin();
  Operation *user = use.getOwner();
  if (auto permute = dyn_cast<nn::PermuteOp>(user)) {
    StridedView last = getDestination(permute.getResult());
    Sizes strides(last.strides.size());
    for (auto [i, dim] : llvm::enumerate(permute.getPermutation()))
      strides[dim] = last.strides[i];
    return {last.source, 0, strides, last.scale};
  }
  if (auto scale = getScale(user, use.getOperandNumber())) {
    StridedView last = getDestination(user->getResult(0));
    last.scale *= *scale;
    return last;
  }
  if (auto reshape = dyn_cast<nn::ReshapeOp>(user)) {
    StridedView last = getDestination(reshape.getResult());
    if (last.source == reshape.getResult())
      return self;
    if (auto strides = reshapeStrides(getShape(reshape.getResult()),
                                      last.strides, getShape(value)))
      return {last.source, 0, *strides, last.scale};
  }
  return self;
}

StridedView chooseSource(Value value, TakesView takes) {
  SmallVector<StridedView> views = getViews(value);
  return *llvm::find_if(llvm::reverse(views), [&](const StridedView &view) {
    return takes(view, value);
  });
}

StridedView chooseDestination(Value value, TakesView takes) {
  StridedView last = getDestination(value);
  if (takes(last, value))
    return last;
  auto type = cast<RankedTensorType>(value.getType());
  return {value, 0, getContiguousStrides(type.getShape())};
}

} // namespace tandem::lower
