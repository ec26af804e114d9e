//===- Views.cpp - helpers of the import stage ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Views.h"

using namespace mlir;
using namespace tandem::nn;

namespace tandem {

void inheritPass(Operation *op, Operation *root) { copyPass(root, op); }

static RankedTensorType getType(Value value, ArrayRef<int64_t> shape) {
  return RankedTensorType::get(
      shape, cast<RankedTensorType>(value.getType()).getElementType());
}

Value createReshape(RewriterBase &rewriter, Operation *root, Value value,
                    ArrayRef<int64_t> shape) {
  if (getShape(value) == shape)
    return value;
  auto op =
      ReshapeOp::create(rewriter, root->getLoc(), getType(value, shape), value);
  inheritPass(op, root);
  return op;
}

Value createPermute(RewriterBase &rewriter, Operation *root, Value value,
                    ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> shape;
  for (int64_t dim : permutation)
    shape.push_back(getShape(value)[dim]);
  auto op = PermuteOp::create(rewriter, root->getLoc(), getType(value, shape),
                              value, permutation);
  inheritPass(op, root);
  return op;
}

std::optional<SmallVector<SmallVector<int64_t, 2>>>
getMergedDims(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  SmallVector<SmallVector<int64_t, 2>> groups;
  int64_t next = 0, rank = from.size();
  for (int64_t size : to) {
    auto &group = groups.emplace_back();
    int64_t product = 1;
    while (next < rank && (product < size ||
                           (group.empty() && size == 1 && from[next] == 1))) {
      product *= from[next];
      group.push_back(next++);
    }
    if (product != size)
      return std::nullopt;
  }
  for (; next < rank; ++next) {
    if (from[next] != 1)
      return std::nullopt;
    if (!groups.empty())
      groups.back().push_back(next);
  }
  return groups;
}

static int64_t countLargeDims(ArrayRef<int64_t> shape) {
  return llvm::count_if(shape, [](int64_t size) { return size != 1; });
}

std::optional<SmallVector<SmallVector<int64_t, 2>>> matchMerge(Value value,
                                                               Value &source) {
  auto reshape = value.getDefiningOp<ReshapeOp>();
  if (!reshape)
    return std::nullopt;
  source = reshape.getInput();
  ArrayRef<int64_t> from = getShape(source), to = getShape(value);
  if (countLargeDims(from) <= countLargeDims(to) || llvm::is_contained(from, 0))
    return std::nullopt;
  return getMergedDims(from, to);
}

bool isBroadcasting(Operation *op) {
  return isa_and_nonnull<NNDialect>(op->getDialect()) &&
         op->getNumOperands() > 0 && op->hasTrait<Broadcasting>();
}

LogicalResult JoinReshapes::matchAndRewrite(ReshapeOp op,
                                            PatternRewriter &rewriter) const {
  auto inner = op.getInput().getDefiningOp<ReshapeOp>();
  if (!inner)
    return failure();
  rewriter.replaceOp(op, createReshape(rewriter, op, inner.getInput(),
                                       op.getType().getShape()));
  return success();
}

GreedyRewriteConfig getRewriteConfig() {
  GreedyRewriteConfig config;
  config.enableFolding(false)
      .enableConstantCSE(false)
      .setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  return config;
}

} // namespace tandem
