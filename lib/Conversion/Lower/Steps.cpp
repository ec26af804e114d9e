//===- Steps.cpp - opening and closing steps ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Steps.h"
#include "tandem/Analysis/StepBody.h"

using namespace mlir;

namespace tandem::lower {

func::FuncOp getStepFunction(ModuleOp module) {
  auto function = module.lookupSymbol<func::FuncOp>("step");
  if (!function || function.isExternal()) {
    module.emitError("module has no function @step with a body");
    return nullptr;
  }
  return function;
}

LogicalResult verifySteps(func::FuncOp function) {
  if (failed(verifyStepBody(function)))
    return failure();
  for (Operation &op : function.getBody().front().without_terminator())
    if (!isa<sched::StepOp>(op))
      return op.emitError("operator '")
             << op.getName()
             << "' stands outside of a sched.step (see --tandem-schedule)";
  return sched::verifyQueues(function);
}

static void openSteps(func::FuncOp function) {
  for (auto step : function.getOps<sched::StepOp>()) {
    Operation *yield = step.getBody().front().getTerminator();
    for (auto [result, inner] :
         llvm::zip_equal(step.getValues(), yield->getOperands()))
      result.replaceAllUsesWith(inner);
    yield->setOperands({});
  }
}

static void eraseUnused(func::FuncOp function) {
  SmallVector<sched::StepOp> steps(function.getOps<sched::StepOp>());
  for (sched::StepOp step : llvm::reverse(steps)) {
    SmallVector<Operation *> ops;
    for (Operation &op : step.getBody().front().without_terminator())
      ops.push_back(&op);
    for (Operation *op : llvm::reverse(ops))
      if (isOpTriviallyDead(op))
        op->erase();
  }
}

static SmallVector<Value> getUsedOutside(sched::StepOp step) {
  SmallVector<Value> values;
  for (Operation &op : step.getBody().front().without_terminator())
    for (Value result : op.getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) {
            return user->getParentOp() != step;
          }))
        values.push_back(result);
  return values;
}

static void closeStep(sched::StepOp step) {
  SmallVector<Value> values = getUsedOutside(step);
  OpBuilder builder(step);
  auto closed = sched::StepOp::create(
      builder, step.getLoc(), ValueRange(values).getTypes(),
      step.getEvent().getType(), step.getQueue(), step.getStage(),
      step.getStrand(), step.getAfter());
  closed->setDiscardableAttrs(step->getDiscardableAttrDictionary());
  closed.getBody().takeBody(step.getBody());
  for (auto [value, result] : llvm::zip_equal(values, closed.getValues()))
    value.replaceUsesWithIf(result, [&](OpOperand &use) {
      return use.getOwner()->getParentOp() != closed;
    });
  closed.getBody().front().getTerminator()->setOperands(values);
  step.getEvent().replaceAllUsesWith(closed.getEvent());
  step.erase();
}

static void closeSteps(func::FuncOp function) {
  eraseUnused(function);
  for (auto step : llvm::make_early_inc_range(function.getOps<sched::StepOp>()))
    closeStep(step);
}

LogicalResult rewriteSteps(ModuleOp module,
                           function_ref<void(func::FuncOp)> rewrite) {
  func::FuncOp function = getStepFunction(module);
  if (!function || failed(verifySteps(function)))
    return failure();
  openSteps(function);
  rewrite(function);
  closeSteps(function);
  return success();
}

} // namespace tandem::lower
