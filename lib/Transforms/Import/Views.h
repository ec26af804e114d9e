//===- Views.h - helpers of the import stage --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_IMPORT_VIEWS_H
#define TANDEM_LIB_TRANSFORMS_IMPORT_VIEWS_H

#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "tandem/Dialect/NN/NN.h"

namespace tandem {

inline llvm::ArrayRef<int64_t> getShape(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getShape();
}

/// Gives `op` the pass (`nn.pass`) and the marks of the operator that it stands
/// in for.
void inheritPass(mlir::Operation *op, mlir::Operation *root);

/// `value` in `shape`; no operator where it has it already.
mlir::Value createReshape(mlir::RewriterBase &rewriter, mlir::Operation *root,
                          mlir::Value value, llvm::ArrayRef<int64_t> shape);

/// `value` with its dimensions permuted.
mlir::Value createPermute(mlir::RewriterBase &rewriter, mlir::Operation *root,
                          mlir::Value value,
                          llvm::ArrayRef<int64_t> permutation);

/// For a reshape that only merges neighbouring dimensions: per dimension of
/// `to`, the dimensions of `from` of which it is made. None for any other one.
/// Dimensions of size 1 may come and go.
std::optional<llvm::SmallVector<llvm::SmallVector<int64_t, 2>>>
getMergedDims(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);

/// The groups of `value`'s dimensions if it is a reshape that merges at least
/// two dimensions larger than one; `source` is what it reshapes.
std::optional<llvm::SmallVector<llvm::SmallVector<int64_t, 2>>>
matchMerge(mlir::Value value, mlir::Value &source);

/// Whether `op` is elementwise and broadcasts its operands.
bool isBroadcasting(mlir::Operation *op);

/// reshape(reshape(x)) -> reshape(x)
struct JoinReshapes : mlir::OpRewritePattern<nn::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  mlir::LogicalResult
  matchAndRewrite(nn::ReshapeOp op,
                  mlir::PatternRewriter &rewriter) const override;
};

/// The patterns of `--tandem-simplify-views`.
void populateSimplifyViewsPatterns(mlir::RewritePatternSet &patterns);

/// Own patterns only: no folding, no change of regions or constants.
mlir::GreedyRewriteConfig getRewriteConfig();

} // namespace tandem

#endif // TANDEM_LIB_TRANSFORMS_IMPORT_VIEWS_H
