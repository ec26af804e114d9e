//===- SimplifyViews.cpp - fewer and simpler views ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Views.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/IRMapping.h"
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

/// `value`, converted as `like` converts.
static Value createConvert(RewriterBase &rewriter, ConvertOp like,
                           Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  auto op = ConvertOp::create(rewriter, like.getLoc(),
                              type.clone(like.getType().getElementType()),
                              value, like.getSumsFirst());
  op->setDiscardableAttrs(like->getDiscardableAttrDictionary());
  return op;
}

/// As matchMerge, for reshapes that add or take away dimensions of 1.
static std::optional<SmallVector<SmallVector<int64_t, 2>>>
matchOnesBeside(Value value, Value &source) {
  auto reshape = value.getDefiningOp<ReshapeOp>();
  if (!reshape)
    return std::nullopt;
  source = reshape.getInput();
  auto isLarge = [](int64_t size) { return size != 1; };
  if (!llvm::equal(llvm::make_filter_range(getShape(source), isLarge),
                   llvm::make_filter_range(getShape(value), isLarge)))
    return std::nullopt;
  return getMergedDims(getShape(source), getShape(value));
}

static int64_t count(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

/// Whether `value`, which one operator reads, is made elementwise of tensors
/// with fewer elements.
static bool makesMore(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !value.hasOneUse())
    return false;
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    return makesMore(reshape.getInput());
  return isBroadcasting(op) &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return count(operand) < count(value) || makesMore(operand);
         });
}

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

/// permute(convert(permute(x))) -> permute(permute(convert(x))), which are one,
/// where permutations alone read the conversion: others would hold both.
struct MoveConversionBeforePermute : OpRewritePattern<ConvertOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConvertOp op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<PermuteOp>();
    if (!inner || op.use_empty() ||
        !llvm::all_of(op->getUsers(), llvm::IsaPred<PermuteOp>))
      return failure();
    Value converted = createConvert(rewriter, op, inner.getInput());
    rewriter.replaceOp(
        op, createPermute(rewriter, op, converted, inner.getPermutation()));
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
    if (!groups && makesMore(op.getInput()))
      groups = matchOnesBeside(op.getInput(), source);
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

/// softmax(permute(x)) -> permute(softmax(x)) where its rows lie one behind the
/// other in x, which may be converted in between; so with a log-softmax, and
/// with gradients, which read the result.
template <typename OpTy> struct MoveRowsBeforePermute : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override;
};

/// permute(split(x)) -> split(permute(x)) for what is moved on: parts of a
/// dimension stay together.
struct MovePermuteBeforeSplit : OpRewritePattern<PermuteOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(PermuteOp op,
                                PatternRewriter &rewriter) const override;
};

/// permute(f(x, y)) -> f(permute(x), permute(y)) for elementwise f where that
/// moves fewer elements: a row of zeros and a one is made of an index.
struct MovePermuteBeforeElementwise : OpRewritePattern<PermuteOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(PermuteOp op,
                                PatternRewriter &rewriter) const override;
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

static Value withoutConversion(Value value) {
  auto convert = value.getDefiningOp<ConvertOp>();
  return convert ? convert.getInput() : value;
}

template <typename OpTy>
LogicalResult
MoveRowsBeforePermute<OpTy>::matchAndRewrite(OpTy op,
                                             PatternRewriter &rewriter) const {
  Value rows = op->getOperand(op->getNumOperands() - 1);
  auto permute = withoutConversion(rows).getDefiningOp<PermuteOp>();
  int64_t last = op.getType().getRank() - 1, dim = op.getDim();
  if (!permute || dim == last || permute.getPermutation()[dim] != last)
    return failure();
  ArrayRef<int64_t> permutation = permute.getPermutation();
  SmallVector<int64_t> back = invertPermutationVector(permutation);
  IRMapping operands;
  for (Value operand : op->getOperands())
    operands.map(operand, createPermute(rewriter, op, operand, back));
  auto moved = cast<OpTy>(rewriter.clone(*op, operands));
  rewriter.modifyOpInPlace(moved, [&] {
    moved.setDim(last);
    moved.getResult().setType(
        op.getType().clone(applyPermutation(op.getType().getShape(), back)));
  });
  rewriter.replaceOp(op, createPermute(rewriter, op, moved, permutation));
  return success();
}

/// The order of `groups` in which `permutation` has what is in them, those with
/// nothing last; nothing if it takes one apart.
static std::optional<SmallVector<int64_t>>
getOrder(ArrayRef<SmallVector<int64_t, 2>> groups,
         ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> order;
  while (!permutation.empty()) {
    const auto *group = llvm::find_if(groups, [&](const auto &dims) {
      return !dims.empty() && dims == permutation.take_front(dims.size());
    });
    if (group == groups.end())
      return std::nullopt;
    order.push_back(group - groups.begin());
    permutation = permutation.drop_front(group->size());
  }
  for (auto [index, dims] : llvm::enumerate(groups))
    if (dims.empty())
      order.push_back(index);
  return order;
}

LogicalResult
MovePermuteBeforeSplit::matchAndRewrite(PermuteOp op,
                                        PatternRewriter &rewriter) const {
  auto reshape = op.getInput().getDefiningOp<ReshapeOp>();
  if (!reshape || !makesMore(op.getInput()))
    return failure();
  Value source = reshape.getInput();
  auto groups = getMergedDims(getShape(op.getInput()), getShape(source));
  auto order = groups ? getOrder(*groups, op.getPermutation()) : std::nullopt;
  if (!order)
    return failure();
  Value permuted = createPermute(rewriter, op, source, *order);
  rewriter.replaceOp(
      op, createReshape(rewriter, op, permuted, op.getType().getShape()));
  return success();
}

LogicalResult
MovePermuteBeforeElementwise::matchAndRewrite(PermuteOp op,
                                              PatternRewriter &rewriter) const {
  Operation *made = op.getInput().getDefiningOp();
  if (!made || !isBroadcasting(made) || !makesMore(op.getInput()))
    return failure();
  size_t rank = op.getType().getRank();
  SmallVector<Value> operands;
  for (Value operand : made->getOperands()) {
    if (getShape(operand).empty()) {
      operands.push_back(operand);
      continue;
    }
    SmallVector<int64_t> shape(rank - getShape(operand).size(), 1);
    llvm::append_range(shape, getShape(operand));
    operands.push_back(createPermute(
        rewriter, made, createReshape(rewriter, made, operand, shape),
        op.getPermutation()));
  }
  OperationState state(made->getLoc(), made->getName().getStringRef(), operands,
                       op->getResultTypes(), made->getAttrs());
  rewriter.replaceOp(op, rewriter.create(state));
  return success();
}

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
               RemoveIdentity<PadOp>, JoinReshapes, JoinPermutes,
               MoveConversionBeforePermute, RemovePermute,
               MovePermuteBeforeMerge, MovePermuteBeforeSplit,
               MovePermuteBeforeElementwise, MoveRowsBeforePermute<SoftmaxOp>,
               MoveRowsBeforePermute<LogSoftmaxOp>,
               MoveRowsBeforePermute<SoftmaxBackwardOp>,
               MoveRowsBeforePermute<LogSoftmaxBackwardOp>, DropExpandedOperand,
               MoveElementwiseBeforeMerge>(patterns.getContext());
}

LogicalResult SimplifyViewsPass::runOnStep(func::FuncOp step) {
  RewritePatternSet patterns(&getContext());
  populateSimplifyViewsPatterns(patterns);
  return applyPatternsGreedily(step, std::move(patterns), getRewriteConfig());
}
