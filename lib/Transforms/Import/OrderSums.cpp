//===- OrderSums.cpp - products first in sums of many terms ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Views.h"
#include "tandem/Transforms/Import/Import.h"
#include "tandem/Transforms/StepPass.h"

namespace tandem {
#define GEN_PASS_DEF_ORDERSUMSPASS
#include "tandem/Transforms/Import/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::nn;

namespace {
/// In `((residual + a b) + c d) + e f`, as autograd accumulates gradients, each
/// product (or other contraction) may be a partial sum that has to be reduced
/// before it is added to the residual. With them first they are reduced once.
struct OrderSumsPass
    : tandem::StepPass<tandem::impl::OrderSumsPassBase<OrderSumsPass>> {
  LogicalResult runOnStep(func::FuncOp step) override;
};
} // namespace

/// Whether `value` is a term of a longer sum that nothing else uses.
static AddOp getInnerSum(Value value, AddOp outer) {
  auto inner = value.getDefiningOp<AddOp>();
  if (!inner || !inner->hasOneUse() || inner.getType() != outer.getType() ||
      getPass(inner) != getPass(outer))
    return {};
  return inner;
}

static void collectTerms(AddOp op, AddOp root, SmallVectorImpl<Value> &terms) {
  for (Value operand : op.getOperands()) {
    if (AddOp inner = getInnerSum(operand, root))
      collectTerms(inner, root, terms);
    else
      terms.push_back(operand);
  }
}

/// Whether splitting a dimension makes `value` a sum. A lookup gives each
/// element once, wherever its table is split.
static bool sumsUp(const spmd::Rule &rule, OpResult value) {
  if (value.getOwner()->hasTrait<Lookup>())
    return false;
  for (unsigned factor = 0; factor < rule.factors.size(); ++factor)
    if (rule.canSplit(factor, 1) && rule.getSplitSignature(factor)
                                        .results[value.getResultNumber()]
                                        .isReduce())
      return true;
  return false;
}

/// Whether `value` sums over a dimension that may be split, or is made of what
/// does by an operator that is linear in it.
static bool isContraction(Value value) {
  while (auto op = value.getDefiningOp<spmd::SignatureOpInterface>()) {
    spmd::Rule rule = op.getRule();
    if (sumsUp(rule, cast<OpResult>(value)))
      return true;
    if (op->getNumOperands() != 1 || rule.linear.empty())
      return false;
    value = op->getOperand(0);
  }
  return false;
}

static void orderSum(AddOp root) {
  SmallVector<Value> terms;
  collectTerms(root, root, terms);
  bool sameType = llvm::all_of(
      terms, [&](Value term) { return term.getType() == root.getType(); });
  SmallVector<Value> ordered = llvm::filter_to_vector(terms, isContraction);
  llvm::copy_if(terms, std::back_inserter(ordered),
                [](Value term) { return !isContraction(term); });
  if (terms.size() < 3 || !sameType || ordered == terms)
    return;
  OpBuilder builder(root);
  Value sum = ordered.front();
  for (Value term : ArrayRef(ordered).drop_front()) {
    auto add = AddOp::create(builder, root.getLoc(), root.getType(), sum, term);
    inheritPass(add, root);
    sum = add;
  }
  root.replaceAllUsesWith(sum);
}

LogicalResult OrderSumsPass::runOnStep(func::FuncOp step) {
  SmallVector<AddOp> roots;
  for (auto op : step.getBody().front().getOps<AddOp>()) {
    bool isInner = op->hasOneUse() && isa<AddOp>(*op->user_begin()) &&
                   getInnerSum(op, cast<AddOp>(*op->user_begin()));
    if (!isInner)
      roots.push_back(op);
  }
  for (AddOp root : roots)
    orderSum(root);
  Block &block = step.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
  return success();
}
