//===- GroupHeads.cpp - grouped heads of attention ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Steps.h"
#include "tandem/Conversion/Lower/Lower.h"
#include "tandem/Dialect/NN/NN.h"

using namespace mlir;
using namespace tandem::nn;

namespace tandem::lower {

#define GEN_PASS_DEF_GROUPHEADS
#include "tandem/Conversion/Lower/Passes.h.inc"

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

static Value createReshape(OpBuilder &builder, Operation *op, Value value,
                           ArrayRef<int64_t> shape) {
  if (getShape(value) == shape)
    return value;
  auto type = cast<RankedTensorType>(value.getType());
  auto reshape =
      ReshapeOp::create(builder, op->getLoc(), type.clone(shape), value);
  reshape->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  reshape->removeAttr(kIdAttrName);
  return reshape;
}

/// (b, h, 1, n, d), which `heads` (b, h g, n, d) repeats g times; null for
/// other heads.
static Value getRepeated(Value heads) {
  auto reshape = heads.getDefiningOp<ReshapeOp>();
  auto expand =
      reshape ? reshape.getInput().getDefiningOp<ExpandOp>() : nullptr;
  if (!expand)
    return {};
  ArrayRef<int64_t> from = getShape(expand.getInput());
  ArrayRef<int64_t> to = getShape(expand.getResult());
  if (from.size() != 5 || to.size() != 5 || from[2] != 1)
    return {};
  SmallVector<int64_t> once(to), all = {to[0], to[1] * to[2], to[3], to[4]};
  once[2] = 1;
  bool isRepetition =
      from == ArrayRef(once) && getShape(heads) == ArrayRef(all);
  return isRepetition ? expand.getInput() : Value();
}

/// The sums over groups that are all that is used of the gradient of repeated
/// heads; nothing if it is used in another way.
static std::optional<SmallVector<SumOp>> getGroupSums(Value gradient,
                                                      Value repeated) {
  SmallVector<int64_t> groups(getShape(repeated));
  groups[2] = getShape(gradient)[1] / groups[1];
  SmallVector<SumOp> sums;
  for (Operation *user : gradient.getUsers()) {
    auto reshape = dyn_cast<ReshapeOp>(user);
    if (!reshape || getShape(reshape.getResult()) != ArrayRef(groups))
      return std::nullopt;
    for (Operation *reader : reshape->getUsers()) {
      auto sum = dyn_cast<SumOp>(reader);
      if (!sum || sum.getDims() != ArrayRef<int64_t>(2))
        return std::nullopt;
      sums.push_back(sum);
    }
  }
  return sums;
}

/// Heads before they were repeated, in four dimensions.
static Value createOnce(OpBuilder &builder, Operation *op, Value repeated) {
  ArrayRef<int64_t> shape = getShape(repeated);
  return createReshape(builder, op, repeated,
                       {shape[0], shape[1], shape[3], shape[4]});
}

/// Both of `op` before they were repeated; null unless that often alike.
template <typename Op> static std::pair<Value, Value> getRepeatedBoth(Op op) {
  Value key = getRepeated(op.getKey()), value = getRepeated(op.getValue());
  bool isAlike = key && value && getShape(key)[1] == getShape(value)[1];
  return isAlike ? std::pair(key, value) : std::pair(Value(), Value());
}

static void group(AttentionOp op) {
  auto [key, value] = getRepeatedBoth(op);
  if (!key)
    return;
  OpBuilder builder(op);
  op.getKeyMutable().assign(createOnce(builder, op, key));
  op.getValueMutable().assign(createOnce(builder, op, value));
}

/// Its gradients are sums over groups then.
static void group(AttentionBackwardOp op) {
  auto [key, value] = getRepeatedBoth(op);
  if (!key)
    return;
  auto keySums = getGroupSums(op.getKeyGrad(), key);
  auto valueSums = getGroupSums(op.getValueGrad(), value);
  if (!keySums || !valueSums)
    return;
  OpBuilder builder(op);
  op.getKeyMutable().assign(createOnce(builder, op, key));
  op.getValueMutable().assign(createOnce(builder, op, value));
  op.getKeyGrad().setType(cast<RankedTensorType>(op.getKey().getType()));
  op.getValueGrad().setType(cast<RankedTensorType>(op.getValue().getType()));
  for (auto [gradient, sums] : {std::pair(op.getKeyGrad(), &*keySums),
                                std::pair(op.getValueGrad(), &*valueSums)})
    for (SumOp sum : *sums) {
      builder.setInsertionPoint(sum);
      sum.replaceAllUsesWith(
          createReshape(builder, sum, gradient, getShape(sum.getResult())));
      sum.erase();
    }
}

namespace {
struct GroupHeadsPass : impl::GroupHeadsBase<GroupHeadsPass> {
  void runOnOperation() override {
    auto rewrite = [](func::FuncOp function) {
      rewriteEach<AttentionOp, AttentionBackwardOp>(function,
                                                    [](auto op) { group(op); });
    };
    if (failed(rewriteSteps(getOperation(), rewrite)))
      signalPassFailure();
  }
};
} // namespace

} // namespace tandem::lower
