//===- Commands.cpp - what a queue executes -------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Sched/Sched.h"

using namespace mlir;
using namespace tandem::sched;

#include "tandem/Dialect/Sched/SchedInterfaces.cpp.inc"

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

int64_t tandem::sched::getElementBytes(Type type) {
  return llvm::divideCeil(type.getIntOrFloatBitWidth(), 8);
}

int64_t tandem::sched::countBytes(ValueRange values) {
  int64_t bytes = 0;
  for (Type type : values.getTypes()) {
    auto shaped = cast<ShapedType>(type);
    bytes += shaped.getNumElements() * getElementBytes(shaped.getElementType());
  }
  return bytes;
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

LogicalResult ViewOp::verify() {
  if (getAxes().size() != getCoefficients().size())
    return emitOpError("has ") << getAxes().size() << " axes, but "
                               << getCoefficients().size() << " coefficients";
  auto source = cast<MemRefType>(getSource().getType());
  auto type = cast<MemRefType>(getBuffer().getType());
  if (source.getElementType() != type.getElementType())
    return emitOpError("has element type ")
           << type.getElementType() << ", expected " << source.getElementType();
  int64_t end = getOffset() + type.getNumElements();
  if (static_cast<int64_t>(getOffset()) < 0 || end > source.getNumElements())
    return emitOpError("ends at element ")
           << end << " of " << source.getNumElements();
  return success();
}

LogicalResult CopyOp::verify() {
  auto source = cast<MemRefType>(getSource().getType());
  auto destination = cast<MemRefType>(getDestination().getType());
  if (source.getElementType() == destination.getElementType() &&
      source.getNumElements() == destination.getNumElements())
    return success();
  return emitOpError("copies ") << source << " into " << destination;
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel =
      symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("calls @") << getKernel() << ", which does not exist";
  if (!kernel->hasAttr(kKernelAttrName))
    return emitOpError("calls @")
           << getKernel() << ", which is no kernel, expected a function with '"
           << kKernelAttrName << "'";
  auto agree = [](Type tensor, Type buffer) {
    auto shaped = cast<ShapedType>(tensor), memref = cast<ShapedType>(buffer);
    return shaped.getShape() == memref.getShape() &&
           shaped.getElementType() == memref.getElementType();
  };
  FunctionType type = kernel.getFunctionType();
  if (type.getNumInputs() == getInputs().size() &&
      type.getNumResults() == getOutputs().size() &&
      llvm::all_of_zip(type.getInputs(), getInputs().getTypes(), agree) &&
      llvm::all_of_zip(type.getResults(), getOutputs().getTypes(), agree))
    return success();
  return emitOpError("buffers do not fit the type of @")
         << getKernel() << ", " << type;
}

//===----------------------------------------------------------------------===//
// What commands read and write
//===----------------------------------------------------------------------===//

SmallVector<Value> LaunchOp::getReads() { return getInputs(); }
SmallVector<Value> LaunchOp::getWrites() { return getOutputs(); }

SmallVector<Value> CollectiveOp::getReads() { return {getSource()}; }
SmallVector<Value> CollectiveOp::getWrites() { return {getDestination()}; }

SmallVector<Value> CopyOp::getReads() { return {getSource()}; }
SmallVector<Value> CopyOp::getWrites() { return {getDestination()}; }

SmallVector<Value> CheckFiniteOp::getReads() { return {getSource()}; }
SmallVector<Value> CheckFiniteOp::getWrites() { return {}; }
