//===- Tensor.h - values of the reference interpreter ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tensor of doubles or of 64-bit integers, which rounds to its element type
// whenever an element is set. Nothing here is fast; it is meant to be read.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REFERENCE_TENSOR_H
#define TANDEM_REFERENCE_TENSOR_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include <memory>
#include <vector>

namespace tandem::reference {

/// `value` rounded to `type` (f64, f32, f16 or bf16; to nearest, ties to even;
/// the 16-bit types by way of f32, as kernels compute them).
double roundTo(mlir::Type type, double value);
/// Whether values are rounded, in this process (true). Without, all types have
/// the precision of f64: a comparison of stages then needs no tolerance for
/// their different orders of sums.
void setRounding(bool isRounding);
/// `value` modulo 2^width, sign-extended if `type` is not unsigned; i1 is 0
/// or 1.
int64_t wrapTo(mlir::Type type, int64_t value);
/// `value` rounded towards zero; the smallest integer where it has none.
int64_t truncate(double value);

/// Row-major elements with a shape and an element type. A value: copies are
/// deep.
class Tensor {
public:
  Tensor() = default;
  /// Zeros.
  Tensor(llvm::ArrayRef<int64_t> shape, mlir::Type elementType);
  static Tensor fromAttribute(mlir::ElementsAttr value);

  llvm::ArrayRef<int64_t> getShape() const { return shape; }
  mlir::Type getElementType() const { return elementType; }
  mlir::RankedTensorType getType() const {
    return mlir::RankedTensorType::get(shape, elementType);
  }
  int64_t getNumElements() const { return count; }
  bool isFloat() const { return llvm::isa<mlir::FloatType>(elementType); }

  /// The element at the linear index `i`, converted if it is of the other kind.
  double getDouble(int64_t i) const {
    return isFloating ? doubles[i] : static_cast<double>(integers[i]);
  }
  int64_t getInteger(int64_t i) const {
    return isFloating ? truncate(doubles[i]) : integers[i];
  }
  /// Sets the element at `i`, rounded or wrapped to the element type.
  void setDouble(int64_t i, double value) {
    doubles[i] = roundTo(elementType, value);
  }
  void setInteger(int64_t i, int64_t value) {
    integers[i] = wrapTo(elementType, value);
  }
  /// Copies element `j` of `other`, which has the same element type.
  void copyElement(int64_t i, const Tensor &other, int64_t j) {
    if (isFloating)
      doubles[i] = other.doubles[j];
    else
      integers[i] = other.integers[j];
  }

  /// Whether both are equal to the bit (NaN equals NaN).
  bool isIdenticalTo(const Tensor &other) const;
  /// The same elements in another shape.
  Tensor reshaped(llvm::ArrayRef<int64_t> shape) const;

private:
  llvm::SmallVector<int64_t, 4> shape;
  mlir::Type elementType;
  int64_t count = 0;
  bool isFloating = false;
  std::vector<double> doubles;
  std::vector<int64_t> integers;
};

/// A tensor that several points share.
using TensorRef = std::shared_ptr<const Tensor>;

/// Row-major strides of `shape`.
llvm::SmallVector<int64_t, 4> getStrides(llvm::ArrayRef<int64_t> shape);
int64_t getNumElements(llvm::ArrayRef<int64_t> shape);

/// Calls `visit(index, linear)` for every index of `shape` in row-major order.
template <typename Fn>
void forEachIndex(llvm::ArrayRef<int64_t> shape, Fn &&visit) {
  llvm::SmallVector<int64_t, 4> index(shape.size(), 0);
  int64_t count = getNumElements(shape);
  for (int64_t linear = 0; linear < count; ++linear) {
    visit(llvm::ArrayRef<int64_t>(index), linear);
    for (size_t dim = shape.size(); dim-- > 0;) {
      if (++index[dim] < shape[dim])
        break;
      index[dim] = 0;
    }
  }
}

/// The block of `source` that begins at `offsets`.
Tensor extractBlock(const Tensor &source, llvm::ArrayRef<int64_t> offsets,
                    llvm::ArrayRef<int64_t> shape);
/// Writes `block` into `target` at `offsets`.
void insertBlock(Tensor &target, const Tensor &block,
                 llvm::ArrayRef<int64_t> offsets);
/// Elementwise sum, in double or 64-bit arithmetic, rounded once. At least one
/// term; all have the type of the first.
Tensor sumOf(llvm::ArrayRef<TensorRef> terms);
/// Concatenation along `dim`.
Tensor concatenate(llvm::ArrayRef<TensorRef> pieces, int64_t dim);

} // namespace tandem::reference

#endif // TANDEM_REFERENCE_TENSOR_H
