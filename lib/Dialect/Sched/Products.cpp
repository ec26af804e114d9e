//===- Products.cpp - matrix products by strides --------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Sched/Sched.h"

using namespace mlir;
using namespace tandem::sched;

//===----------------------------------------------------------------------===//
// Verifiers
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

/// One element for each of the n columns, of the type of `c`.
template <typename OpT> static LogicalResult verifyBias(OpT op, Value c) {
  if (!op.getBias())
    return success();
  auto type = cast<ShapedType>(op.getBias().getType());
  auto element = cast<ShapedType>(c.getType()).getElementType();
  if (type.getNumElements() == static_cast<int64_t>(op.getN()) &&
      type.getElementType() == element)
    return success();
  return op.emitOpError("adds a bias of ")
         << type.getNumElements() << " elements of " << type.getElementType()
         << ", expected " << op.getN() << " of " << element;
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
      failed(verifyOperand(op, "c", c, 0, batch, m, n, op.getStridesC())) ||
      failed(verifyBias(op, c)))
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

LogicalResult MatmulOp::verify() {
  if (getSum() && getSum().getType() != getResult().getType())
    return emitOpError("adds to ")
           << getSum().getType() << ", expected " << getResult().getType();
  return verifyProduct(*this, getResult(), getOffsetA(), getOffsetB());
}

LogicalResult GemmOp::verify() {
  return verifyProduct(*this, getDestination(), 0, 0);
}

//===----------------------------------------------------------------------===//
// A call of a library
//===----------------------------------------------------------------------===//

SmallVector<int64_t> MatmulOp::getLoopSizes() {
  SmallVector<int64_t> sizes(getBatch());
  sizes.append({static_cast<int64_t>(getM()), static_cast<int64_t>(getN()),
                static_cast<int64_t>(getK())});
  return sizes;
}

OpOperand *MatmulOp::getOverwritten() {
  return getSum() ? &getSumMutable()[0] : nullptr;
}

Value tandem::sched::getReached(OpBuilder &builder, Location loc, Value buffer,
                                int64_t offset) {
  if (offset == 0)
    return buffer;
  auto type = cast<MemRefType>(buffer.getType());
  auto part =
      MemRefType::get({type.getNumElements() - offset}, type.getElementType());
  return ViewOp::create(builder, loc, part, buffer, offset,
                        builder.getArrayAttr({}), ArrayRef<int64_t>());
}

void MatmulOp::buildCommand(OpBuilder &builder, ValueRange operands,
                            ValueRange results, Value workspace,
                            const Place &place) {
  Location loc = getLoc();
  Value result = results.front();
  Value lhs = getReached(builder, loc, operands[0], getOffsetA());
  Value rhs = getReached(builder, loc, operands[1], getOffsetB());
  Value bias = getBias() ? operands[2] : Value();
  SmallVector<Value> used = {lhs, rhs, result};
  if (bias)
    used.push_back(bias);
  if (getSum())
    used.push_back(result);
  GemmOp::create(builder, loc, lhs, rhs, bias, result, workspace,
                 static_cast<bool>(getSum()), getBatch(), getM(), getN(),
                 getK(), getStridesA(), getStridesB(), getStridesC(),
                 getAlphaAttr().getValue(), place.queue, place.stage,
                 place.strand, "matmul", getFlops(), countBytes(used));
}

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

SmallVector<Value> GemmOp::getReads() {
  SmallVector<Value> reads = {getLhs(), getRhs()};
  if (getBias())
    reads.push_back(getBias());
  if (getAccumulate())
    reads.push_back(getDestination());
  return reads;
}

SmallVector<Value> GemmOp::getWrites() {
  SmallVector<Value> writes = {getDestination()};
  if (getWorkspace())
    writes.push_back(getWorkspace());
  return writes;
}
