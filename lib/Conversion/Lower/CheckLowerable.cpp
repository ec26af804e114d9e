//===- CheckLowerable.cpp - refuses operators without kernel --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Steps.h"
#include "tandem/Conversion/Lower/Lower.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/Sched/Host.h"

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

static Type getElementType(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

/// Kernels convert to and from float16; libraries and collectives do not know
/// it.
static bool isLibraryFloat(Type element) {
  return element.isF64() || element.isF32() || element.isBF16();
}

static LogicalResult checkElements(Operation *op) {
  if (auto library = dyn_cast<nn::LibraryOpInterface>(op))
    return library.verifyLibraryTypes();
  if (!isa<spmd::AllReduceOp, spmd::ReduceScatterOp>(op))
    return success();
  Type element = getElementType(op->getOperand(0));
  if (isLibraryFloat(element) || (element.isInteger() && !element.isInteger(1)))
    return success();
  return op->emitError("collective '")
         << op->getName() << "' sums " << element
         << ", expected f64, f32, bf16, i64, i32 or i8";
}

static LogicalResult checkOp(Operation *op) {
  for (Type type : op->getResultTypes())
    if (failed(checkType(op, type)))
      return failure();
  if (failed(checkElements(op)))
    return failure();
  if (isa<sched::YieldOp>(op) || sched::isHostCopy(op) ||
      isa<nn::NNDialect>(op->getDialect()))
    return success();
  if (isa<spmd::SPMDDialect>(op->getDialect()) && !isa<spmd::ReformOp>(op))
    return success();
  return op->emitError("operator '")
         << op->getName() << "' has no kernel (see docs/adding-an-operator.md)";
}

/// The runtime asks whether a loss is finite, and whether a check is true.
static LogicalResult checkLosses(func::FuncOp function) {
  Operation *terminator = function.getBody().front().getTerminator();
  for (auto [index, value] : llvm::enumerate(terminator->getOperands())) {
    std::optional<nn::Role> role =
        nn::getRole(function.getResultAttrDict(index));
    Type element = getElementType(value);
    if (role == nn::Role::Check && !element.isInteger(1))
      return emitError(value.getLoc(), "check has element type ")
             << element << ", expected i1";
    if (role != nn::Role::Loss || !isa<FloatType>(element) ||
        isLibraryFloat(element))
      continue;
    return emitError(value.getLoc(), "loss has element type ")
           << element << ", expected f64, f32 or bf16";
  }
  return success();
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
  return checkLosses(function);
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
