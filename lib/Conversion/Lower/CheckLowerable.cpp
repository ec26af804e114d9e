//===- CheckLowerable.cpp - refuses what has no kernel --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Steps.h"
#include "tandem/Conversion/Lower/Lower.h"
#include "tandem/Dialect/NN/NN.h"

using namespace mlir;

namespace tandem::lower {

#define GEN_PASS_DEF_CHECKLOWERABLE
#include "tandem/Conversion/Lower/Passes.h.inc"

/// Unsigned and 16-bit integers have no kernels.
static bool hasKernels(Type element) {
  if (auto integer = dyn_cast<IntegerType>(element))
    return integer.isSignless() &&
           llvm::is_contained({1u, 8u, 32u, 64u}, integer.getWidth());
  return true;
}

static LogicalResult checkType(Operation *op, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return success();
  if (tensor.getEncoding())
    return op->emitError("operator '")
           << op->getName() << "' has a value of type " << type
           << ", expected no form to be left (see --tandem-duplex)";
  if (!tensor.hasStaticShape())
    return op->emitError("operator '")
           << op->getName() << "' has a value of type " << type
           << ", expected a static shape";
  if (!hasKernels(tensor.getElementType()))
    return op->emitError("operator '")
           << op->getName() << "' has a value of element type "
           << tensor.getElementType()
           << ", expected a floating-point type, i64, i32, i8 or i1";
  return success();
}

static LogicalResult checkOp(Operation *op) {
  for (Type type : op->getResultTypes())
    if (failed(checkType(op, type)))
      return failure();
  if (isa<sched::YieldOp>(op) || isa<nn::NNDialect>(op->getDialect()))
    return success();
  if (isa<spmd::SPMDDialect>(op->getDialect()) && !isa<spmd::ReformOp>(op))
    return success();
  return op->emitError("operator '")
         << op->getName() << "' has no kernel (see docs/adding-an-operator.md)";
}

static LogicalResult checkBody(func::FuncOp function) {
  if (!function.getBody().hasOneBlock())
    return function.emitError("@step has several blocks, expected one");
  for (Type type : function.getArgumentTypes())
    if (failed(checkType(function, type)))
      return failure();
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (!isa<sched::StepOp>(op))
      return op.emitError("operator '")
             << op.getName() << "' stands outside of a sched.step";
    for (Operation &inner : op.getRegion(0).front())
      if (failed(checkOp(&inner)))
        return failure();
  }
  return success();
}

namespace {
struct CheckLowerablePass : impl::CheckLowerableBase<CheckLowerablePass> {
  void runOnOperation() override {
    func::FuncOp function = getStepFunction(getOperation());
    if (!function || failed(checkBody(function)))
      signalPassFailure();
  }
};
} // namespace

} // namespace tandem::lower
