//===- Tensor.cpp - values of the reference interpreter -----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/Tensor.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

using namespace mlir;

namespace tandem::reference {

static double roundThroughAPFloat(FloatType type, double value) {
  llvm::APFloat number(static_cast<double>(static_cast<float>(value)));
  bool lossy;
  number.convert(type.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                 &lossy);
  return number.convertToDouble();
}

static double roundToBF16(double value) {
  float single = static_cast<float>(value);
  if (std::isnan(single))
    return value;
  uint32_t bits;
  std::memcpy(&bits, &single, sizeof bits);
  bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u;
  std::memcpy(&single, &bits, sizeof bits);
  return single;
}

static bool areValuesRounded = true;

void setRounding(bool isRounding) { areValuesRounded = isRounding; }

double roundTo(Type type, double value) {
  if (type.isF64() || !areValuesRounded)
    return value;
  if (type.isF32())
    return static_cast<float>(value);
  if (type.isBF16())
    return roundToBF16(value);
  return roundThroughAPFloat(cast<FloatType>(type), value);
}

int64_t wrapTo(Type type, int64_t value) {
  unsigned width = type.getIntOrFloatBitWidth();
  if (width >= 64)
    return value;
  uint64_t low = static_cast<uint64_t>(value) & ((uint64_t(1) << width) - 1);
  if (width == 1 || type.isUnsignedInteger())
    return static_cast<int64_t>(low);
  return static_cast<int64_t>(low << (64 - width)) >> (64 - width);
}

int64_t truncate(double value) {
  // A conversion out of range is undefined in C++.
  if (!(value >= -0x1p63 && value < 0x1p63))
    return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}

int64_t getNumElements(ArrayRef<int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t(1),
                         std::multiplies<>());
}

SmallVector<int64_t, 4> getStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t, 4> strides(shape.size());
  int64_t stride = 1;
  for (size_t dim = shape.size(); dim-- > 0;) {
    strides[dim] = stride;
    stride *= shape[dim];
  }
  return strides;
}

Tensor::Tensor(ArrayRef<int64_t> shape, Type elementType)
    : shape(shape), elementType(elementType),
      count(reference::getNumElements(shape)),
      isFloating(isa<FloatType>(elementType)) {
  if (isFloating)
    doubles.resize(count);
  else
    integers.resize(count);
}

Tensor Tensor::fromAttribute(ElementsAttr value) {
  auto type = cast<ShapedType>(value.getType());
  Tensor tensor(type.getShape(), type.getElementType());
  int64_t i = 0;
  if (tensor.isFloating) {
    for (const llvm::APFloat &element : value.getValues<llvm::APFloat>())
      tensor.doubles[i++] = element.convertToDouble();
    return tensor;
  }
  for (const llvm::APInt &element : value.getValues<llvm::APInt>())
    tensor.setInteger(i++, static_cast<int64_t>(element.getRawData()[0]));
  return tensor;
}

bool Tensor::isIdenticalTo(const Tensor &other) const {
  if (shape != other.shape || elementType != other.elementType ||
      integers != other.integers)
    return false;
  return llvm::all_of(llvm::zip(doubles, other.doubles), [](auto pair) {
    auto [x, y] = pair;
    return x == y || (std::isnan(x) && std::isnan(y));
  });
}

Tensor Tensor::reshaped(ArrayRef<int64_t> newShape) const {
  Tensor result = *this;
  result.shape.assign(newShape.begin(), newShape.end());
  return result;
}

/// The linear index in a tensor with `strides` of `index`, which is relative to
/// `offsets`.
static int64_t linearize(ArrayRef<int64_t> strides, ArrayRef<int64_t> offsets,
                         ArrayRef<int64_t> index) {
  int64_t linear = 0;
  for (auto [stride, offset, position] : llvm::zip(strides, offsets, index))
    linear += stride * (offset + position);
  return linear;
}

Tensor extractBlock(const Tensor &source, ArrayRef<int64_t> offsets,
                    ArrayRef<int64_t> shape) {
  Tensor block(shape, source.getElementType());
  auto strides = getStrides(source.getShape());
  forEachIndex(shape, [&](ArrayRef<int64_t> index, int64_t linear) {
    block.copyElement(linear, source, linearize(strides, offsets, index));
  });
  return block;
}

void insertBlock(Tensor &target, const Tensor &block,
                 ArrayRef<int64_t> offsets) {
  auto strides = getStrides(target.getShape());
  forEachIndex(block.getShape(), [&](ArrayRef<int64_t> index, int64_t linear) {
    target.copyElement(linearize(strides, offsets, index), block, linear);
  });
}

Tensor sumOf(ArrayRef<TensorRef> terms) {
  const Tensor &first = *terms.front();
  Tensor sum(first.getShape(), first.getElementType());
  for (int64_t i = 0; i < first.getNumElements(); ++i) {
    if (first.isFloat()) {
      double total = 0;
      for (const TensorRef &term : terms)
        total += term->getDouble(i);
      sum.setDouble(i, total);
      continue;
    }
    uint64_t total = 0;
    for (const TensorRef &term : terms)
      total += static_cast<uint64_t>(term->getInteger(i));
    sum.setInteger(i, static_cast<int64_t>(total));
  }
  return sum;
}

Tensor concatenate(ArrayRef<TensorRef> pieces, int64_t dim) {
  SmallVector<int64_t> shape(pieces.front()->getShape());
  shape[dim] = 0;
  for (const TensorRef &piece : pieces)
    shape[dim] += piece->getShape()[dim];
  Tensor whole(shape, pieces.front()->getElementType());
  SmallVector<int64_t> offsets(shape.size(), 0);
  for (const TensorRef &piece : pieces) {
    insertBlock(whole, *piece, offsets);
    offsets[dim] += piece->getShape()[dim];
  }
  return whole;
}

} // namespace tandem::reference
