//===- SortRows.cpp - batch first where rows are merged -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Views.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "tandem/Transforms/Import/Import.h"
#include "tandem/Transforms/StepPass.h"

namespace tandem {
#define GEN_PASS_DEF_SORTROWSPASS
#include "tandem/Transforms/Import/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::nn;

// Recurrent and attention layers of PyTorch work on (sequence, batch, width)
// and merge the first two for a product. The batch comes second there and
// cannot be split, although the order of the rows does not matter to a product,
// nor that of a contraction to either operand. So the batch comes first in
// them.

namespace {
using Dims = SmallVector<int64_t, 2>;
using BatchDims = llvm::DenseMap<Value, int64_t>;

/// A value as merge(permute(split(source))); the split and the permutation may
/// be the identity.
struct PermutedMerge {
  Value source;
  SmallVector<int64_t> splitShape;
  /// Of the dimension of the split source that has the batch; -1 for none.
  int64_t batchDim = -1;
  SmallVector<int64_t> permutation;
  /// Per dimension of the value, the dimensions of the permuted source.
  SmallVector<Dims> groups;
};

/// product(merge(s b), w) -> merge(permute(unmerge(product(merge(b s), w))))
struct SortProductRows : OpRewritePattern<MatmulOp> {
  SortProductRows(MLIRContext *context, BatchDims &batchDims)
      : OpRewritePattern(context), batchDims(batchDims) {}
  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override;
  BatchDims &batchDims;
};

/// A contraction over dimensions that both operands merge alike.
struct SortContraction : OpRewritePattern<MatmulOp> {
  SortContraction(MLIRContext *context, BatchDims &batchDims)
      : OpRewritePattern(context), batchDims(batchDims) {}
  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override;
  BatchDims &batchDims;
};

/// sum(merge(x)) -> sum(x) where whole groups are summed.
struct SumBeforeMerge : OpRewritePattern<SumOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SumOp op,
                                PatternRewriter &rewriter) const override;
};

/// Forgets values that are no more: their memory may come back as another's.
struct Forget : RewriterBase::Listener {
  explicit Forget(BatchDims &batchDims) : batchDims(batchDims) {}
  void notifyOperationErased(Operation *op) override {
    for (Value result : op->getResults())
      batchDims.erase(result);
  }
  BatchDims &batchDims;
};

struct SortRowsPass
    : tandem::StepPass<tandem::impl::SortRowsPassBase<SortRowsPass>> {
  LogicalResult runOnStep(func::FuncOp step) override;
};
} // namespace

//===----------------------------------------------------------------------===//
// Where the batch is
//===----------------------------------------------------------------------===//

/// The first factor of `dim` that is larger than one, or -1.
static int64_t getMajorFactor(const spmd::Rule &rule,
                              const spmd::Rule::Dim &dim) {
  for (unsigned factor : dim)
    if (rule.factors[factor].size > 1)
      return factor;
  return -1;
}

/// Follows the batch dimension of operands to results, by the rule of `op`.
static void followBatch(Operation &op, BatchDims &batchDims) {
  auto interface = dyn_cast<spmd::SignatureOpInterface>(op);
  if (!interface || llvm::none_of(op.getOperands(), [&](Value operand) {
        return batchDims.count(operand);
      }))
    return;
  spmd::Rule rule = interface.getRule();
  for (auto [index, operand] : llvm::enumerate(op.getOperands())) {
    auto known = batchDims.find(operand);
    if (known == batchDims.end())
      continue;
    int64_t factor = getMajorFactor(rule, rule.operands[index][known->second]);
    if (factor < 0 || !rule.factors[factor].splittable)
      continue;
    for (auto [number, result] : llvm::enumerate(op.getResults()))
      for (auto [dim, factors] : llvm::enumerate(rule.results[number]))
        if (getMajorFactor(rule, factors) == factor)
          batchDims.try_emplace(result, dim);
  }
}

static BatchDims findBatchDims(func::FuncOp function) {
  BatchDims batchDims;
  for (BlockArgument argument : function.getArguments())
    if (auto dim =
            getBatchDim(function.getArgAttrDict(argument.getArgNumber())))
      batchDims[argument] = *dim;
  for (Operation &op : function.getBody().front())
    followBatch(op, batchDims);
  return batchDims;
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

/// The sizes that are left when both shapes are split wherever one of them is;
/// nothing if they cannot be. Both have the same number of elements.
static std::optional<SmallVector<int64_t>>
getCommonSplit(ArrayRef<int64_t> lhs, ArrayRef<int64_t> rhs) {
  SmallVector<int64_t> ends;
  for (ArrayRef<int64_t> shape : {lhs, rhs})
    for (int64_t end = 1; int64_t size : shape)
      ends.push_back(end *= size);
  llvm::sort(ends);
  SmallVector<int64_t> sizes;
  for (int64_t last = 1; int64_t end : ends) {
    if (end == last)
      continue;
    if (last == 0 || end % last != 0)
      return std::nullopt;
    sizes.push_back(end / last);
    last = end;
  }
  return sizes;
}

/// Per dimension of `source`, as `order` has them, its parts among `sizes`;
/// they are counted in the order of the source.
static SmallVector<Dims> getParts(ArrayRef<Dims> groups,
                                  ArrayRef<int64_t> order) {
  SmallVector<Dims> parts(groups.size());
  int64_t next = 0;
  for (int64_t position : invertPermutationVector(order))
    for (size_t part = 0; part < groups[position].size(); ++part)
      parts[position].push_back(next++);
  return parts;
}

/// A layer may split one dimension of what it permutes and merge others in one
/// reshape: (positions, batch and heads, width) -> (rows, all heads' width).
static std::optional<PermutedMerge>
matchPermutedMerge(Value value, const BatchDims &batchDims) {
  auto reshape = value.getDefiningOp<ReshapeOp>();
  if (!reshape)
    return std::nullopt;
  PermutedMerge match;
  match.source = reshape.getInput();
  auto order = llvm::to_vector(
      llvm::seq<int64_t>(0, getShape(reshape.getInput()).size()));
  if (auto permute = match.source.getDefiningOp<PermuteOp>()) {
    match.source = permute.getInput();
    order.assign(permute.getPermutation().begin(),
                 permute.getPermutation().end());
  }
  ArrayRef<int64_t> from = getShape(reshape.getInput()), to = getShape(value);
  auto sizes = getCommonSplit(from, to);
  if (!sizes || llvm::is_contained(*sizes, 0))
    return std::nullopt;
  auto groups = getMergedDims(*sizes, to);
  auto splits = getMergedDims(*sizes, from);
  if (!groups || !splits ||
      llvm::all_of(*groups, [](const auto &group) { return group.size() < 2; }))
    return std::nullopt;
  match.groups.assign(groups->begin(), groups->end());
  SmallVector<Dims> parts = getParts(*splits, order);
  match.splitShape.resize(sizes->size());
  for (auto [split, part] : llvm::zip_equal(*splits, parts)) {
    llvm::append_range(match.permutation, part);
    for (auto [from, to] : llvm::zip_equal(split, part))
      match.splitShape[to] = (*sizes)[from];
  }
  auto known = batchDims.find(match.source);
  if (known == batchDims.end())
    return match;
  const Dims &batch = parts[invertPermutationVector(order)[known->second]];
  if (!batch.empty())
    match.batchDim = batch.front();
  return match;
}

static SmallVector<int64_t> getGroupSizes(const PermutedMerge &match,
                                          unsigned index) {
  SmallVector<int64_t> sizes;
  for (int64_t dim : match.groups[index])
    sizes.push_back(match.splitShape[match.permutation[dim]]);
  return sizes;
}

/// The dimensions of group `index`, the batch first. Sorted if it is, or if it
/// is not among them.
static SmallVector<int64_t> getOrder(const PermutedMerge &match,
                                     unsigned index) {
  auto order =
      llvm::to_vector(llvm::seq<int64_t>(0, match.groups[index].size()));
  for (int64_t position : llvm::seq<int64_t>(0, order.size())) {
    if (match.permutation[match.groups[index][position]] != match.batchDim)
      continue;
    order.erase(order.begin() + position);
    order.insert(order.begin(), position);
    break;
  }
  return order;
}

/// The value of `match` with the dimensions of group `index` in `order`.
static Value createReordered(PatternRewriter &rewriter, Operation *root,
                             const PermutedMerge &match, unsigned index,
                             ArrayRef<int64_t> order, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> permutation(match.permutation);
  for (auto [position, from] : llvm::enumerate(order))
    permutation[match.groups[index][position]] =
        match.permutation[match.groups[index][from]];
  Value permuted =
      createReshape(rewriter, root, match.source, match.splitShape);
  if (!llvm::is_sorted(permutation))
    permuted = createPermute(rewriter, root, permuted, permutation);
  return createReshape(rewriter, root, permuted, shape);
}

LogicalResult
SortProductRows::matchAndRewrite(MatmulOp op, PatternRewriter &rewriter) const {
  auto match = matchPermutedMerge(op.getLhs(), batchDims);
  if (!match || match->groups.size() != 2)
    return failure();
  SmallVector<int64_t> order = getOrder(*match, 0);
  if (llvm::is_sorted(order))
    return failure();
  ArrayRef<int64_t> shape = op.getType().getShape();
  Value lhs =
      createReordered(rewriter, op, *match, 0, order, getShape(op.getLhs()));
  auto product =
      MatmulOp::create(rewriter, op.getLoc(), op.getType(), lhs, op.getRhs());
  product->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  SmallVector<int64_t> sizes = getGroupSizes(*match, 0);
  SmallVector<int64_t> sorted = applyPermutation(sizes, order);
  sorted.push_back(shape[1]);
  Value unmerged = createReshape(rewriter, op, product, sorted);
  SmallVector<int64_t> back = invertPermutationVector(order);
  back.push_back(order.size());
  Value permuted = createPermute(rewriter, op, unmerged, back);
  batchDims[unmerged] = 0;
  batchDims[permuted] = order.front();
  rewriter.replaceOp(op, createReshape(rewriter, op, permuted, shape));
  return success();
}

LogicalResult
SortContraction::matchAndRewrite(MatmulOp op, PatternRewriter &rewriter) const {
  auto lhs = matchPermutedMerge(op.getLhs(), batchDims);
  auto rhs = matchPermutedMerge(op.getRhs(), batchDims);
  if (!lhs || !rhs || lhs->groups.size() != 2 || rhs->groups.size() != 2 ||
      getGroupSizes(*lhs, 1) != getGroupSizes(*rhs, 0))
    return failure();
  SmallVector<int64_t> order = getOrder(*lhs, 1);
  if (llvm::is_sorted(order))
    order = getOrder(*rhs, 0);
  if (llvm::is_sorted(order))
    return failure();
  Value newLhs =
      createReordered(rewriter, op, *lhs, 1, order, getShape(op.getLhs()));
  Value newRhs =
      createReordered(rewriter, op, *rhs, 0, order, getShape(op.getRhs()));
  rewriter.modifyOpInPlace(op, [&] {
    op.getLhsMutable().assign(newLhs);
    op.getRhsMutable().assign(newRhs);
  });
  return success();
}

LogicalResult SumBeforeMerge::matchAndRewrite(SumOp op,
                                              PatternRewriter &rewriter) const {
  Value source;
  auto groups = matchMerge(op.getInput(), source);
  if (!groups)
    return failure();
  SmallVector<int64_t> dims, shape;
  bool isMerged = false;
  for (int64_t dim : op.getDims()) {
    llvm::append_range(dims, (*groups)[dim]);
    isMerged |= (*groups)[dim].size() > 1;
  }
  if (!isMerged)
    return failure();
  for (auto [dim, size] : llvm::enumerate(getShape(source)))
    if (!llvm::is_contained(dims, static_cast<int64_t>(dim)))
      shape.push_back(size);
  auto type = RankedTensorType::get(shape, op.getType().getElementType());
  auto sum = SumOp::create(rewriter, op.getLoc(), type, source, dims, false);
  inheritPass(sum, op);
  rewriter.replaceOp(op,
                     createReshape(rewriter, op, sum, op.getType().getShape()));
  return success();
}

LogicalResult SortRowsPass::runOnStep(func::FuncOp step) {
  // A product shows where the batch is in what follows it, so each round that
  // changes anything gets at least one operator further.
  size_t maxRounds = 2 + step.getBody().front().getOperations().size();
  bool changed = true;
  for (size_t round = 0; changed; ++round) {
    if (round > maxRounds)
      return emitError(step.getLoc())
             << "rows of products are not in order after " << round
             << " rounds, expected at most one for each operator";
    BatchDims batchDims = findBatchDims(step);
    Forget forget(batchDims);
    RewritePatternSet patterns(&getContext());
    populateSimplifyViewsPatterns(patterns);
    patterns.add<SumBeforeMerge>(&getContext());
    patterns.add<SortProductRows, SortContraction>(&getContext(), batchDims);
    GreedyRewriteConfig config = getRewriteConfig();
    config.setListener(&forget);
    if (failed(
            applyPatternsGreedily(step, std::move(patterns), config, &changed)))
      return failure();
  }
  return success();
}
