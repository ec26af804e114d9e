//===- Views.cpp - source elements of views and pieces --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tandem/Dialect/NN/Scalar.h"
#include "tandem/Dialect/NN/Strides.h"

using namespace mlir;
using namespace tandem::nn;

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

void SliceOp::emitSource(Scalar &s, MutableArrayRef<Value> index) {
  Value &at = index[getDim()];
  Value step = s.constant(getStep()), start = s.constant(getStart());
  at = s.add(s.mul(at, step), start);
}

void FlipOp::emitSource(Scalar &s, MutableArrayRef<Value> index) {
  for (int64_t dim : getDims())
    index[dim] = s.sub(s.constant(getShape(getInput())[dim] - 1), index[dim]);
}

void RollOp::emitSource(Scalar &s, MutableArrayRef<Value> index) {
  for (auto [dim, shift] : llvm::zip(getDims(), getShifts())) {
    int64_t size = getShape(getInput())[dim];
    Value moved = s.add(index[dim], s.constant(size - shift));
    index[dim] = s.make<arith::RemUIOp>(moved, s.constant(size));
  }
}

//===----------------------------------------------------------------------===//
// Strides
//===----------------------------------------------------------------------===//

tandem::Sizes tandem::getContiguousStrides(ArrayRef<int64_t> shape) {
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

std::optional<tandem::Sizes> tandem::reshapeStrides(ArrayRef<int64_t> from,
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

bool ReshapeOp::moveStrides(SmallVectorImpl<int64_t> &strides, int64_t &) {
  auto moved =
      reshapeStrides(getShape(getInput()), strides, getShape(getResult()));
  if (moved)
    strides = std::move(*moved);
  return moved.has_value();
}

bool PermuteOp::moveStrides(SmallVectorImpl<int64_t> &strides, int64_t &) {
  Sizes moved;
  for (int64_t dim : getPermutation())
    moved.push_back(strides[dim]);
  strides = std::move(moved);
  return true;
}

bool ExpandOp::moveStrides(SmallVectorImpl<int64_t> &strides, int64_t &) {
  ArrayRef<int64_t> from = getShape(getInput());
  Sizes moved(getShape(getResult()).size() - from.size(), 0);
  for (auto [size, stride] : llvm::zip_equal(from, strides))
    moved.push_back(size == 1 ? 0 : stride);
  strides = std::move(moved);
  return true;
}

bool SliceOp::moveStrides(SmallVectorImpl<int64_t> &strides, int64_t &offset) {
  int64_t &stride = strides[getDim()];
  offset += stride * static_cast<int64_t>(getStart());
  stride *= static_cast<int64_t>(getStep());
  return true;
}
