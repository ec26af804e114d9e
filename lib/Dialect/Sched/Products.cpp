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

/// A tensor or buffer beside the product: its number of elements, of the type
/// of `c`.
static LogicalResult verifyBeside(Operation *op, StringRef what, Type beside,
                                  int64_t elements, Value c) {
  auto type = cast<ShapedType>(beside);
  auto element = cast<ShapedType>(c.getType()).getElementType();
  if (type.getNumElements() == elements && type.getElementType() == element)
    return success();
  return op->emitOpError("has ")
         << what << " of " << type.getNumElements() << " elements of "
         << type.getElementType() << ", expected " << elements << " of "
         << element;
}

/// `read`, `kept` and `sums` may be null.
template <typename OpT>
static LogicalResult verifyEpilogue(OpT op, Value read, Value kept, Value sums,
                                    Value c) {
  bool isGradient = op.getEpilogue() == Epilogue::GeluGradient;
  if (isGradient != static_cast<bool>(read))
    return op.emitOpError("has epilogue '")
           << stringifyEpilogue(op.getEpilogue()) << "' and "
           << (read ? "a" : "no") << " pre-activation to read";
  if (kept && op.getEpilogue() != Epilogue::Gelu)
    return op.emitOpError("keeps a pre-activation, expected epilogue 'gelu'");
  if (op.getEpilogue() != Epilogue::None && op.getSummed() != Summed::None)
    return op.emitOpError("has an epilogue and sums, expected one of them");
  if ((op.getSummed() != Summed::None) != static_cast<bool>(sums))
    return op.emitOpError("sums '")
           << stringifySummed(op.getSummed()) << "' and has "
           << (sums ? "a" : "no") << " place for it";
  if ((read || kept || sums) && !op.getBatch().empty())
    return op.emitOpError(
        "has a pre-activation or sums and a batch, expected no batch");
  int64_t m = op.getM(), n = op.getN();
  for (Value each : {read, kept})
    if (each &&
        failed(verifyBeside(op, "a pre-activation", each.getType(), m * n, c)))
      return failure();
  return sums ? verifyBeside(op, "sums", sums.getType(),
                             op.getSummed() == Summed::Lhs ? m : n, c)
              : success();
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
      (op.getBias() &&
       failed(verifyBeside(op, "a bias", op.getBias().getType(), n, c))))
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
  if (getBeside() && !getKept() && !getSums())
    return emitOpError("has a second result, expected epilogue 'gelu' or sums");
  if (failed(verifyEpilogue(*this, getPreActivation(), getKept(), getSums(),
                            getResult())))
    return failure();
  return verifyProduct(*this, getResult(), getOffsetA(), getOffsetB());
}

LogicalResult GemmOp::verify() {
  bool isRead = getEpilogue() == Epilogue::GeluGradient;
  Value read = isRead ? getPreActivation() : Value();
  Value kept = isRead ? Value() : getPreActivation();
  if (failed(verifyEpilogue(*this, read, kept, getSums(), getDestination())))
    return failure();
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
  Value preActivation = getPreActivation() ? operands.back()
                        : getKept()        ? results.back()
                                           : Value();
  Value sums = getSums() ? results.back() : Value();
  SmallVector<Value> used = {lhs, rhs, result};
  for (Value each : {bias, preActivation, sums})
    if (each)
      used.push_back(each);
  if (getSum())
    used.push_back(result);
  GemmOp::create(builder, loc, lhs, rhs, bias, result, preActivation, sums,
                 workspace, static_cast<bool>(getSum()), getBatch(), getM(),
                 getN(), getK(), getStridesA(), getStridesB(), getStridesC(),
                 getAlphaAttr().getValue(), getEpilogue(), getSummed(),
                 place.queue, place.stage, place.strand, getLabel(), getFlops(),
                 countBytes(used));
}

/// `matmul+gelu+sum`: what a user would call it.
std::string MatmulOp::getLabel() {
  std::string label = "matmul";
  if (getEpilogue() != Epilogue::None)
    label += getEpilogue() == Epilogue::Gelu ? "+gelu" : "+gelu_backward";
  return getSums() ? label + "+sum" : label;
}

Value MatmulOp::getKept() {
  return getEpilogue() == Epilogue::Gelu ? getBeside() : Value();
}

Value MatmulOp::getSums() {
  return getSummed() != Summed::None ? getBeside() : Value();
}

MatmulOp MatmulOp::keep(Type beside) {
  OpBuilder builder(*this);
  auto made = MatmulOp::create(
      builder, getLoc(), getResult().getType(), beside, getLhs(), getRhs(),
      getBias(), getSum(), getPreActivation(), getBatch(), getM(), getN(),
      getK(), getStridesA(), getStridesB(), getStridesC(), getAlpha(),
      getEpilogue(), getSummed(), getOffsetA(), getOffsetB());
  made->setDiscardableAttrs((*this)->getDiscardableAttrDictionary());
  getResult().replaceAllUsesWith(made.getResult());
  erase();
  return made;
}

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

SmallVector<Value> GemmOp::getReads() {
  SmallVector<Value> reads = {getLhs(), getRhs()};
  if (getBias())
    reads.push_back(getBias());
  if (getEpilogue() == Epilogue::GeluGradient)
    reads.push_back(getPreActivation());
  if (getAccumulate())
    reads.push_back(getDestination());
  return reads;
}

SmallVector<Value> GemmOp::getWrites() {
  SmallVector<Value> writes = {getDestination()};
  if (getPreActivation() && getEpilogue() == Epilogue::Gelu)
    writes.push_back(getPreActivation());
  if (getSums())
    writes.push_back(getSums());
  if (getWorkspace())
    writes.push_back(getWorkspace());
  return writes;
}
