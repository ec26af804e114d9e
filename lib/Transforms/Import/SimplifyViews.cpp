//===- SimplifyViews.cpp - fewer and simpler views ------------------------===//
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
#define GEN_PASS_DEF_SIMPLIFYVIEWSPASS
#include "tandem/Transforms/Import/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::nn;

namespace {

/// A view that gives its input: the type tells for all but permutations.
template <typename OpTy> struct RemoveIdentity : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    if (op->getOperand(0).getType() != op->getResult(0).getType())
      return failure();
    rewriter.replaceOp(op, op->getOperand(0));
    return success();
  }
};

struct JoinPermutes : OpRewritePattern<PermuteOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(PermuteOp op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<PermuteOp>();
    if (!inner)
      return failure();
    SmallVector<int64_t> permutation;
    for (int64_t dim : op.getPermutation())
      permutation.push_back(inner.getPermutation()[dim]);
    rewriter.replaceOp(
        op, createPermute(rewriter, op, inner.getInput(), permutation));
    return success();
  }
};

/// A permutation that keeps the order of all dimensions larger than one moves
/// no element: it is a reshape, or nothing.
struct RemovePermute : OpRewritePattern<PermuteOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(PermuteOp op,
                                PatternRewriter &rewriter) const override {
    ArrayRef<int64_t> shape = getShape(op.getInput());
    int64_t last = -1;
    for (int64_t dim : op.getPermutation()) {
      if (shape[dim] == 1)
        continue;
      if (dim < last)
        return failure();
      last = dim;
    }
    rewriter.replaceOp(op, createReshape(rewriter, op, op.getInput(),
                                         op.getType().getShape()));
    return success();
  }
};

/// permute(merge(x)) -> merge(permute(x)): a merge is worth nothing before the
/// operator that asks for it, and hides a dimension until then.
struct MovePermuteBeforeMerge : OpRewritePattern<PermuteOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(PermuteOp op,
                                PatternRewriter &rewriter) const override {
    Value source;
    auto groups = matchMerge(op.getInput(), source);
    if (!groups)
      return failure();
    SmallVector<int64_t> permutation;
    for (int64_t dim : op.getPermutation())
      llvm::append_range(permutation, (*groups)[dim]);
    Value permuted = createPermute(rewriter, op, source, permutation);
    rewriter.replaceOp(
        op, createReshape(rewriter, op, permuted, op.getType().getShape()));
    return success();
  }
};

/// Operators that broadcast need no explicit expansion of an operand, as long
/// as another one has the whole shape.
struct DropExpandedOperand : RewritePattern {
  explicit DropExpandedOperand(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override;
};

/// f(merge(x), scalar) -> merge(f(x, scalar)) for elementwise f.
struct MoveElementwiseBeforeMerge : RewritePattern {
  explicit MoveElementwiseBeforeMerge(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override;
};

struct SimplifyViewsPass
    : tandem::StepPass<tandem::impl::SimplifyViewsPassBase<SimplifyViewsPass>> {
  LogicalResult runOnStep(func::FuncOp step) override;
};
} // namespace

LogicalResult
DropExpandedOperand::matchAndRewrite(Operation *op,
                                     PatternRewriter &rewriter) const {
  if (!isBroadcasting(op))
    return failure();
  ArrayRef<int64_t> shape = getShape(op->getResult(0));
  for (OpOperand &operand : op->getOpOperands()) {
    auto expand = operand.get().getDefiningOp<ExpandOp>();
    bool isWholeElsewhere = llvm::any_of(op->getOpOperands(), [&](auto &other) {
      return &other != &operand && getShape(other.get()) == shape &&
             !other.get().template getDefiningOp<ExpandOp>();
    });
    if (!expand || !isWholeElsewhere)
      continue;
    rewriter.modifyOpInPlace(op, [&] { operand.set(expand.getInput()); });
    return success();
  }
  return failure();
}

/// Whether `operand` means the same against the unmerged shape: a scalar, or
/// a tensor that has only trailing dimensions that are not merged.
static bool fitsBeforeMerge(Value operand,
                            ArrayRef<SmallVector<int64_t, 2>> groups) {
  size_t rank = getShape(operand).size();
  if (rank > groups.size())
    return false;
  return llvm::all_of(groups.take_back(rank),
                      [](const auto &group) { return group.size() == 1; });
}

LogicalResult
MoveElementwiseBeforeMerge::matchAndRewrite(Operation *op,
                                            PatternRewriter &rewriter) const {
  if (!isBroadcasting(op))
    return failure();
  // An update works on the shape of its parameter, with all uses of a gradient.
  if (getPass(op) == PassKind::Update)
    return failure();
  ArrayRef<int64_t> shape = getShape(op->getResult(0));
  Value source;
  std::optional<SmallVector<SmallVector<int64_t, 2>>> groups;
  for (Value operand : op->getOperands())
    if (!groups && getShape(operand) == shape)
      groups = matchMerge(operand, source);
  if (!groups)
    return failure();
  ArrayRef<int64_t> unmerged = getShape(source);
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    Value other;
    if (fitsBeforeMerge(operand, *groups))
      operands.push_back(operand);
    else if (getShape(operand) == shape && matchMerge(operand, other) &&
             getShape(other) == unmerged)
      operands.push_back(other);
    else
      return failure();
  }
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  OperationState state(op->getLoc(), op->getName().getStringRef(), operands,
                       {RankedTensorType::get(unmerged, type.getElementType())},
                       op->getAttrs());
  Value moved = rewriter.create(state)->getResult(0);
  rewriter.replaceOp(op, createReshape(rewriter, op, moved, shape));
  return success();
}

void tandem::populateSimplifyViewsPatterns(RewritePatternSet &patterns) {
  patterns.add<RemoveIdentity<ReshapeOp>, RemoveIdentity<ExpandOp>,
               RemoveIdentity<ConvertOp>, RemoveIdentity<SliceOp>,
               RemoveIdentity<PadOp>, JoinReshapes, JoinPermutes, RemovePermute,
               MovePermuteBeforeMerge, DropExpandedOperand,
               MoveElementwiseBeforeMerge>(patterns.getContext());
}

LogicalResult SimplifyViewsPass::runOnStep(func::FuncOp step) {
  RewritePatternSet patterns(&getContext());
  populateSimplifyViewsPatterns(patterns);
  return applyPatternsGreedily(step, std::move(patterns), getRewriteConfig());
}
