//===- UnfoldProducts.cpp - products over separate dimensions -------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Views.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "tandem/Transforms/Import/Import.h"
#include "tandem/Transforms/StepPass.h"

namespace tandem {
#define GEN_PASS_DEF_UNFOLDPRODUCTSPASS
#include "tandem/Transforms/Import/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::nn;

using Shape = SmallVector<int64_t>;

static Shape join(ArrayRef<int64_t> leading, ArrayRef<int64_t> matrix) {
  Shape shape(leading);
  llvm::append_range(shape, matrix);
  return shape;
}

/// The leading dimensions of `operand` before they were merged, without those
/// of size 1. None if nothing was merged, or if the matrix dimensions were.
static std::optional<Shape> getUnmergedLeadingDims(Value operand) {
  Value source;
  auto groups = matchMerge(operand, source);
  if (!groups)
    return std::nullopt;
  ArrayRef<int64_t> from = getShape(source);
  size_t rank = groups->size();
  Shape leading;
  for (size_t i = 0; i + 2 < rank; ++i)
    for (int64_t dim : (*groups)[i])
      if (from[dim] != 1)
        leading.push_back(from[dim]);
  if (leading.size() + 2 <= rank)
    return std::nullopt;
  return leading;
}

/// `op` with its leading dimensions reshaped to `leading`.
static void reshapeProduct(MatmulOp op, ArrayRef<int64_t> leading,
                           PatternRewriter &rewriter) {
  auto reshape = [&](Value value) {
    return createReshape(rewriter, op, value,
                         join(leading, getShape(value).take_back(2)));
  };
  ArrayRef<int64_t> shape = op.getType().getShape();
  auto type = RankedTensorType::get(join(leading, shape.take_back(2)),
                                    op.getType().getElementType());
  Value lhs = reshape(op.getLhs()), rhs = reshape(op.getRhs());
  auto product = MatmulOp::create(rewriter, op.getLoc(), type, lhs, rhs);
  product->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  rewriter.replaceOp(op, createReshape(rewriter, op, product, shape));
}

namespace {
struct UnfoldMergedDims : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    auto leading = getUnmergedLeadingDims(op.getLhs());
    if (!leading)
      leading = getUnmergedLeadingDims(op.getRhs());
    if (!leading)
      return failure();
    reshapeProduct(op, *leading, rewriter);
    return success();
  }
};

struct DropUnitDims : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    ArrayRef<int64_t> shape = op.getType().getShape().drop_back(2);
    Shape leading;
    llvm::copy_if(shape, std::back_inserter(leading),
                  [](int64_t size) { return size != 1; });
    if (leading.size() == shape.size())
      return failure();
    reshapeProduct(op, leading, rewriter);
    return success();
  }
};

struct UnfoldProductsPass
    : tandem::StepPass<
          tandem::impl::UnfoldProductsPassBase<UnfoldProductsPass>> {
  LogicalResult runOnStep(func::FuncOp step) override {
    RewritePatternSet patterns(&getContext());
    patterns.add<UnfoldMergedDims, DropUnitDims, JoinReshapes>(&getContext());
    return applyPatternsGreedily(step, std::move(patterns), getRewriteConfig());
  }
};
} // namespace
