//===- FindRows.h - batch rows among dimensions -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_ACCUMULATE_FINDROWS_H
#define TANDEM_LIB_TRANSFORMS_ACCUMULATE_FINDROWS_H

#include "RowLayout.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Analysis/TensorType.h"
#include "tandem/Dialect/NN/NN.h"
#include "llvm/ADT/DenseMap.h"

namespace tandem {

using RowDims = llvm::SmallVector<RowDim, 1>;
/// Per factor of a rule.
using FactorRows = llvm::SmallVector<std::optional<RowLayout>>;

/// The dimensions whose factors have rows.
RowDims getRowDims(const spmd::Rule::Dims &dims,
                   llvm::ArrayRef<std::optional<RowLayout>> layouts);

/// Follows rows from the inputs of a step: onwards, back to what meets them
/// later and follows from parameters alone, and onwards from there.
class RowFinder {
public:
  void run(mlir::func::FuncOp step);

  llvm::ArrayRef<RowDim> getRows(mlir::Value value) const;
  /// Null where the dimension has none.
  const RowLayout *getLayout(mlir::Value value, int64_t dim) const;
  /// Of factors along which positions do not matter.
  FactorRows getLayouts(mlir::Operation *op, const spmd::Rule &rule) const;
  /// Null for what has none, and for what makes its own positions. The rule is
  /// that of the operator as it was first asked for.
  const spmd::Rule *getRule(mlir::Operation *op);
  /// That of an operand of a concatenation; what is no rows is cut into
  /// `count`.
  RowLayout getPiece(mlir::Value input, int64_t dim, int64_t count) const;
  /// Nothing where no operand has rows, or another not as many.
  std::optional<RowLayout> joinLayouts(nn::CatOp op) const;

  /// What was found first stays.
  void note(mlir::Value value, const RowDim &rows);
  void set(mlir::Value value, RowDims rows);
  /// Before `op` is erased.
  void forget(mlir::Operation *op);

private:
  void follow(mlir::Operation *op);
  void followReshape(nn::ReshapeOp op);
  void followPiece(mlir::Operation *op);
  std::optional<RowLayout>
  getLayout(mlir::Operation *op, const spmd::Rule &rule, unsigned factor) const;

  llvm::DenseMap<mlir::Operation *, spmd::Rule> rules;
  llvm::DenseMap<mlir::Value, RowDims> found;
};

} // namespace tandem

#endif // TANDEM_LIB_TRANSFORMS_ACCUMULATE_FINDROWS_H
