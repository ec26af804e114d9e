//===- RemoveNeutral.cpp - removal of x + 0 and x * 1 ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Import/Import.h"
#include "tandem/Transforms/StepPass.h"

namespace tandem {
#define GEN_PASS_DEF_REMOVENEUTRALPASS
#include "tandem/Transforms/Import/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem::nn;

namespace {
/// Adding a constant is not linear, so that `total = 0; total += term`, as
/// models write it, would end a sum over strands or ranks too early.
struct RemoveNeutralPass
    : tandem::StepPass<tandem::impl::RemoveNeutralPassBase<RemoveNeutralPass>> {
  LogicalResult runOnStep(func::FuncOp step) override;
};
} // namespace

/// Whether every element of `value` is the constant `expected`.
static bool isConstant(Value value, int64_t expected) {
  auto constant = value.getDefiningOp<ConstantOp>();
  if (!constant)
    return false;
  auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (!elements || !elements.isSplat())
    return false;
  if (isa<FloatType>(elements.getElementType()))
    return elements.getSplatValue<APFloat>().convertToDouble() ==
           static_cast<double>(expected);
  return elements.getElementType().isInteger(64) &&
         elements.getSplatValue<APInt>().getSExtValue() == expected;
}

/// The operand that `op` gives back as it is, or null.
static Value getKept(Operation *op) {
  if (op->getNumOperands() != 2)
    return {};
  Value lhs = op->getOperand(0), rhs = op->getOperand(1);
  bool isSum = isa<AddOp>(op), isProduct = isa<MulOp>(op);
  int64_t neutral = isSum || isa<SubOp>(op) ? 0 : 1;
  if (!isSum && !isProduct && !isa<SubOp, DivOp>(op))
    return {};
  Type type = op->getResult(0).getType();
  if (lhs.getType() == type && isConstant(rhs, neutral))
    return lhs;
  if ((isSum || isProduct) && rhs.getType() == type && isConstant(lhs, neutral))
    return rhs;
  return {};
}

LogicalResult RemoveNeutralPass::runOnStep(func::FuncOp step) {
  Block &block = step.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(block))
    if (Value kept = getKept(&op)) {
      op.getResult(0).replaceAllUsesWith(kept);
      op.erase();
    }
  return success();
}
