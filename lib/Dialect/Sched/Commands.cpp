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
// Helpers
//===----------------------------------------------------------------------===//

/// One past the last element that strides reach; 0 if there is no element.
static int64_t getExtent(ArrayRef<int64_t> batch, int64_t rows, int64_t columns,
                         ArrayRef<int64_t> strides) {
  SmallVector<int64_t> sizes(batch);
  sizes.append({rows, columns});
  int64_t last = 0;
  for (auto [size, stride] : llvm::zip_equal(sizes, strides)) {
    if (size == 0)
      return 0;
    last += (size - 1) * stride;
  }
  return last + 1;
}

static LogicalResult verifyOperand(Operation *op, StringRef what, Value value,
                                   int64_t offset, ArrayRef<int64_t> batch,
                                   int64_t rows, int64_t columns,
                                   ArrayRef<int64_t> strides) {
  if (strides.size() != batch.size() + 2)
    return op->emitOpError("operand ")
           << what << " has " << strides.size() << " strides, expected "
           << batch.size() + 2;
  int64_t elements = cast<ShapedType>(value.getType()).getNumElements();
  int64_t extent = offset + getExtent(batch, rows, columns, strides);
  if (extent > elements || offset < 0)
    return op->emitOpError("operand ") << what << " reaches element " << extent
                                       << ", expected at most " << elements;
  return success();
}

template <typename OpT>
static LogicalResult verifyProduct(OpT op, Value c, int64_t offsetA,
                                   int64_t offsetB) {
  ArrayRef<int64_t> batch = op.getBatch();
  int64_t m = op.getM(), n = op.getN(), k = op.getK();
  if (failed(verifyOperand(op, "a", op.getLhs(), offsetA, batch, m, k,
                           op.getStridesA())) ||
      failed(verifyOperand(op, "b", op.getRhs(), offsetB, batch, k, n,
                           op.getStridesB())) ||
      failed(verifyOperand(op, "c", c, 0, batch, m, n, op.getStridesC())))
    return failure();
  int64_t written = m * n;
  for (int64_t size : batch)
    written *= size;
  int64_t elements = cast<ShapedType>(c.getType()).getNumElements();
  if (written != elements)
    return op.emitOpError("writes ")
           << written << " elements, expected " << elements;
  return success();
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

LogicalResult MatmulOp::verify() {
  return verifyProduct(*this, getResult(), getOffsetA(), getOffsetB());
}

LogicalResult GemmOp::verify() {
  return verifyProduct(*this, getDestination(), 0, 0);
}

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

SmallVector<Value> GemmOp::getReads() { return {getLhs(), getRhs()}; }
SmallVector<Value> GemmOp::getWrites() { return {getDestination()}; }

SmallVector<Value> CollectiveOp::getReads() { return {getSource()}; }
SmallVector<Value> CollectiveOp::getWrites() { return {getDestination()}; }

SmallVector<Value> CopyOp::getReads() { return {getSource()}; }
SmallVector<Value> CopyOp::getWrites() { return {getDestination()}; }

SmallVector<Value> CheckFiniteOp::getReads() { return {getSource()}; }
SmallVector<Value> CheckFiniteOp::getWrites() { return {}; }
