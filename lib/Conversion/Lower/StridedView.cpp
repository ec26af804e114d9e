//===- StridedView.cpp - views as strides ---------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StridedView.h"
#include "tandem/Dialect/NN/NN.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tandem::lower {

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

Sizes getContiguousStrides(ArrayRef<int64_t> shape) {
  Sizes strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * shape[i];
  return strides;
}

/// Splits `strides` of the block [begin, end) of `from` over `to`, if the block
/// is one run of equally spaced elements.
static bool reshapeBlock(ArrayRef<int64_t> from, ArrayRef<int64_t> strides,
                         ArrayRef<int64_t> to,
                         MutableArrayRef<int64_t> result) {
  int64_t stride = 0, expected = -1;
  for (size_t i = from.size(); i-- > 0;) {
    if (from[i] == 1)
      continue;
    if (expected < 0)
      stride = strides[i];
    else if (strides[i] != expected)
      return false;
    expected = strides[i] * from[i];
  }
  for (size_t i = to.size(); i-- > 0;) {
    result[i] = stride;
    stride *= to[i];
  }
  return true;
}

std::optional<Sizes> reshapeStrides(ArrayRef<int64_t> from,
                                    ArrayRef<int64_t> strides,
                                    ArrayRef<int64_t> to) {
  Sizes result(to.size(), 0);
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    size_t beginFrom = i, beginTo = j;
    int64_t left = 1, right = 1;
    // The smallest blocks of dimensions that hold the same elements.
    do {
      if ((left <= right && i < from.size()) || j == to.size())
        left *= from[i++];
      else
        right *= to[j++];
    } while (left != right && (i < from.size() || j < to.size()));
    while (i < from.size() && from[i] == 1)
      ++i;
    while (j < to.size() && to[j] == 1)
      ++j;
    if (left != right || !reshapeBlock(from.slice(beginFrom, i - beginFrom),
                                       strides.slice(beginFrom, i - beginFrom),
                                       to.slice(beginTo, j - beginTo),
                                       MutableArrayRef<int64_t>(result).slice(
                                           beginTo, j - beginTo)))
      return std::nullopt;
  }
  return result;
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
  if (isa_and_nonnull<nn::PermuteOp, nn::ReshapeOp, nn::ExpandOp, nn::SliceOp>(
          op))
    return 0;
  for (unsigned operand = 0; isa_and_nonnull<nn::MulOp>(op) && operand < 2;
       ++operand)
    if (getScale(op, operand))
      return operand;
  return std::nullopt;
}

/// `view` is one of `op`'s input; makes it one of its result.
static std::optional<StridedView> pushThrough(Operation *op, StridedView view) {
  return TypeSwitch<Operation *, std::optional<StridedView>>(op)
      .Case([&](nn::PermuteOp permute) {
        Sizes strides;
        for (int64_t dim : permute.getPermutation())
          strides.push_back(view.strides[dim]);
        view.strides = strides;
        return view;
      })
      .Case([&](nn::ReshapeOp reshape) -> std::optional<StridedView> {
        auto strides =
            reshapeStrides(getShape(reshape.getInput()), view.strides,
                           getShape(reshape.getResult()));
        if (!strides)
          return std::nullopt;
        view.strides = *strides;
        return view;
      })
      .Case([&](nn::ExpandOp expand) {
        ArrayRef<int64_t> from = getShape(expand.getInput());
        size_t added = getShape(expand.getResult()).size() - from.size();
        Sizes strides(added, 0);
        for (auto [size, stride] : llvm::zip_equal(from, view.strides))
          strides.push_back(size == 1 ? 0 : stride);
        view.strides = strides;
        return view;
      })
      .Case([&](nn::SliceOp slice) {
        int64_t &stride = view.strides[slice.getDim()];
        view.offset += stride * static_cast<int64_t>(slice.getStart());
        stride *= static_cast<int64_t>(slice.getStep());
        return view;
      })
      .Case([&](nn::MulOp mul) {
        view.scale *= *getScale(mul, *getViewedOperand(mul));
        return view;
      })
      .Default([](Operation *) { return std::nullopt; });
}

SmallVector<StridedView> getViews(Value value) {
  SmallVector<StridedView> views = {
      {value, 0, getContiguousStrides(getShape(value))}};
  Operation *op = value.getDefiningOp();
  std::optional<unsigned> viewed = getViewedOperand(op);
  if (!viewed)
    return views;
  for (StridedView view : getViews(op->getOperand(*viewed))) {
    auto pushed = pushThrough(op, std::move(view));
    if (!pushed)
      break;
    views.push_back(std::move(*pushed));
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

} // namespace tandem::lower
