//===- LinearIndex.h - indices as sums over loops ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_KERNELS_LINEARINDEX_H
#define TANDEM_LIB_CONVERSION_KERNELS_LINEARINDEX_H

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"
#include <map>

namespace tandem {

/// constant + sum of coefficient * factor + sum of coefficient * value. Kept
/// apart until it is written, so that adjacent loops can be merged into one.
struct LinearIndex {
  int64_t constant = 0;
  std::map<int, int64_t> factors;
  llvm::SmallVector<std::pair<mlir::Value, int64_t>, 2> values;

  static LinearIndex ofFactor(int factor) {
    LinearIndex index;
    index.factors[factor] = 1;
    return index;
  }
  static LinearIndex ofConstant(int64_t constant) {
    LinearIndex index;
    index.constant = constant;
    return index;
  }
  static LinearIndex ofValue(mlir::Value value) {
    LinearIndex index;
    index.values.push_back({value, 1});
    return index;
  }

  bool isConstant() const { return factors.empty() && values.empty(); }
  int64_t getCoefficient(int factor) const {
    auto it = factors.find(factor);
    return it == factors.end() ? 0 : it->second;
  }

  LinearIndex operator*(int64_t by) const {
    LinearIndex result;
    if (by == 0)
      return result;
    result = *this;
    result.constant *= by;
    for (auto &[factor, coefficient] : result.factors)
      coefficient *= by;
    for (auto &[value, coefficient] : result.values)
      coefficient *= by;
    return result;
  }
  LinearIndex operator+(const LinearIndex &other) const {
    LinearIndex result = *this;
    result.constant += other.constant;
    for (auto [factor, coefficient] : other.factors)
      if ((result.factors[factor] += coefficient) == 0)
        result.factors.erase(factor);
    result.values.append(other.values);
    return result;
  }

  /// A total order, for use as a key.
  bool operator<(const LinearIndex &other) const {
    auto key = [](const LinearIndex &index) {
      llvm::SmallVector<std::pair<void *, int64_t>, 2> values;
      for (auto [value, coefficient] : index.values)
        values.push_back({value.getAsOpaquePointer(), coefficient});
      return values;
    };
    if (constant != other.constant)
      return constant < other.constant;
    if (factors != other.factors)
      return factors < other.factors;
    auto mine = key(*this), theirs = key(other);
    return std::lexicographical_compare(mine.begin(), mine.end(),
                                        theirs.begin(), theirs.end());
  }
};

/// `expr` of `dims`: sums and constant multiples.
inline LinearIndex evaluateAffine(mlir::AffineExpr expr,
                                  llvm::ArrayRef<LinearIndex> dims) {
  if (auto dim = mlir::dyn_cast<mlir::AffineDimExpr>(expr))
    return dims[dim.getPosition()];
  if (auto constant = mlir::dyn_cast<mlir::AffineConstantExpr>(expr))
    return LinearIndex::ofConstant(constant.getValue());
  auto binary = mlir::cast<mlir::AffineBinaryOpExpr>(expr);
  LinearIndex lhs = evaluateAffine(binary.getLHS(), dims);
  LinearIndex rhs = evaluateAffine(binary.getRHS(), dims);
  if (expr.getKind() == mlir::AffineExprKind::Add)
    return lhs + rhs;
  return rhs.isConstant() ? lhs * rhs.constant : rhs * lhs.constant;
}

/// The row-major linear index of the element at `indices`.
inline LinearIndex linearize(llvm::ArrayRef<LinearIndex> indices,
                             llvm::ArrayRef<int64_t> shape) {
  LinearIndex result;
  for (auto [index, size] : llvm::zip_equal(indices, shape))
    result = result * size + index;
  return result;
}

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_KERNELS_LINEARINDEX_H
