//===- CloneParameterViews.cpp - views of parameters per pass -------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Import/Import.h"
#include "tandem/Transforms/StepPass.h"

namespace tandem {
#define GEN_PASS_DEF_CLONEPARAMETERVIEWSPASS
#include "tandem/Transforms/Import/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem::nn;

namespace {
/// A transposed weight of the forward pass that the backward pass uses as well
/// would keep a gathered parameter alive from one to the other. A view costs
/// nothing, so each pass makes its own.
struct CloneParameterViewsPass
    : tandem::StepPass<
          tandem::impl::CloneParameterViewsPassBase<CloneParameterViewsPass>> {
  LogicalResult runOnStep(func::FuncOp step) override;
};
} // namespace

static bool isView(Operation *op) { return op && op->hasTrait<View>(); }

/// Whether `op` is a view, through other views, of a parameter.
static bool isParameterView(func::FuncOp function, Operation *op) {
  if (!isView(op))
    return false;
  Value source = op->getOperand(0);
  while (isView(source.getDefiningOp()))
    source = source.getDefiningOp()->getOperand(0);
  auto argument = dyn_cast<BlockArgument>(source);
  if (!argument)
    return false;
  return getRole(function.getArgAttrDict(argument.getArgNumber())) ==
         Role::Parameter;
}

static void clonePerPass(Operation *op) {
  std::optional<PassKind> own = getPass(op);
  llvm::SmallMapVector<PassKind, SmallVector<OpOperand *>, 2> uses;
  for (OpOperand &use : op->getUses())
    if (auto pass = getPass(use.getOwner()); pass && pass != own)
      uses[*pass].push_back(&use);
  for (auto &[pass, operands] : uses) {
    Operation *first = operands.front()->getOwner();
    for (OpOperand *operand : operands)
      if (operand->getOwner()->isBeforeInBlock(first))
        first = operand->getOwner();
    Operation *clone = OpBuilder(first).clone(*op);
    setPass(clone, pass);
    for (OpOperand *operand : operands)
      operand->set(clone->getResult(0));
  }
}

LogicalResult CloneParameterViewsPass::runOnStep(func::FuncOp step) {
  Block &block = step.getBody().front();
  SmallVector<Operation *> views;
  for (Operation &op : block)
    if (isParameterView(step, &op))
      views.push_back(&op);
  // Users first: a cloned view is a use of the view that it views.
  for (Operation *op : llvm::reverse(views))
    clonePerPass(op);
  for (Operation *op : llvm::reverse(views))
    if (op->use_empty())
      op->erase();
  return success();
}
