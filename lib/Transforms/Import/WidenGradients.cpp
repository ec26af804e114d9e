//===- WidenGradients.cpp - gradients in the type of their parameter ------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Views.h"
#include "tandem/Analysis/Gradients.h"
#include "tandem/Transforms/Import/Import.h"
#include "tandem/Transforms/StepPass.h"

namespace tandem {
#define GEN_PASS_DEF_WIDENGRADIENTSPASS
#include "tandem/Transforms/Import/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::nn;

namespace {
/// Autocast multiplies in bf16 and keeps parameters in f32: a parameter's
/// gradient is a product in bf16, converted. Split over strands or ranks, terms
/// in bf16 would be added, or, where an all-reduce of half the bytes is
/// cheaper, summed in bf16. As a product in f32 there is nothing to choose.
struct WidenGradientsPass
    : tandem::StepPass<
          tandem::impl::WidenGradientsPassBase<WidenGradientsPass>> {
  LogicalResult runOnStep(func::FuncOp step) override;
};
} // namespace

static Type getElementType(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

static RankedTensorType getWideType(Value value, Type element) {
  return cast<RankedTensorType>(value.getType()).clone(element);
}

/// Whether it gives the wider type itself, whatever its operands are.
static bool canWiden(Operation *op) {
  auto library = dyn_cast<LibraryOpInterface>(op);
  return library && library.canWiden();
}

/// Whether terms pass it, and its numbers are of one type: additions, sums,
/// scaling, and what moves elements.
static bool passesTerms(Operation *op) {
  auto ruled = dyn_cast<spmd::SignatureOpInterface>(op);
  if (!ruled || op->getNumResults() != 1 || isa<LibraryOpInterface>(op))
    return false;
  Type element = getElementType(op->getResult(0));
  bool hasOneType = llvm::all_of(op->getOperands(), [&](Value operand) {
    return !isa<FloatType>(getElementType(operand)) ||
           getElementType(operand) == element;
  });
  return hasOneType && !isa<ConvertOp>(op) && !ruled.getRule().linear.empty();
}

/// `value` in the wider type: by the operator that makes it, if nobody else
/// wants its result rounded. What is made again is no gradient: it is rounded
/// as the forward pass rounds.
static Value widen(Value value, Operation *user, Type element) {
  Operation *op = value.getDefiningOp();
  bool isOwn = isBackward(op) && !isAgain(op) && value.hasOneUse();
  if (isOwn && (canWiden(op) || passesTerms(op))) {
    if (!canWiden(op))
      for (OpOperand &operand : op->getOpOperands())
        if (isa<FloatType>(getElementType(operand.get())))
          operand.set(widen(operand.get(), op, element));
    value.setType(getWideType(value, element));
    return value;
  }
  OpBuilder builder(user);
  auto convert = ConvertOp::create(builder, user->getLoc(),
                                   getWideType(value, element), value);
  inheritPass(convert, user);
  return convert;
}

LogicalResult WidenGradientsPass::runOnStep(func::FuncOp step) {
  SmallVector<ConvertOp> conversions;
  for (auto op : step.getBody().front().getOps<ConvertOp>())
    if (widensGradient(op) && !isAgain(op))
      conversions.push_back(op);
  for (ConvertOp op : conversions) {
    Value wide = widen(op.getInput(), op, getElementType(op.getResult()));
    op.getResult().replaceAllUsesWith(wide);
    op.erase();
  }
  return success();
}
