//===- IndexSum.cpp - sums at an index ------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Nest/IndexSum.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem/Conversion/NNToLinalg/NNToLinalg.h"

using namespace mlir;
using namespace tandem;

/// The dimension of the source that its indices stand for.
static int64_t getDim(Operation *op) {
  auto scatter = dyn_cast<nn::ScatterAddOp>(op);
  return scatter ? scatter.getDim() : 0;
}

/// As many rows as indices, however many dimensions these have.
static Around getSource(Operation *op) {
  if (auto scatter = dyn_cast<nn::ScatterAddOp>(op))
    return Around(scatter.getSrc(), scatter.getDim());
  auto backward = cast<nn::EmbeddingBackwardOp>(op);
  Around from(backward.getResult(), 0);
  from.size =
      cast<RankedTensorType>(backward.getIndices().getType()).getNumElements();
  return from;
}

static std::pair<Value, Value> getOperands(Operation *op) {
  if (auto scatter = dyn_cast<nn::ScatterAddOp>(op))
    return {scatter.getSrc(), scatter.getIndex()};
  auto backward = cast<nn::EmbeddingBackwardOp>(op);
  return {backward.getGrad(), backward.getIndices()};
}

IndexSum::IndexSum(KernelEmitter &kernel, Operation *op)
    : OwnLoopEmitter(kernel), op(op), from(getSource(op)),
      to(op->getResult(0), getDim(op)),
      isOfRows(isa<nn::EmbeddingBackwardOp>(op)) {
  std::tie(source, indices) = getOperands(op);
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

Value IndexSum::getPosition(const Place &at) {
  if (isOfRows)
    return at.place;
  return add(mul(add(mul(at.outer, from.size), at.place), from.inner),
             at.inner);
}

Value IndexSum::loadIndex(const Place &at) {
  return k.load(k.getMemory(indices), getPosition(at), b.getI64Type());
}

Value IndexSum::loadSource(const Place &at) {
  return load(
      source,
      add(mul(add(mul(at.outer, from.size), at.place), from.inner), at.inner));
}

Value IndexSum::getTarget(const Place &at, Value index) {
  return add(mul(add(mul(at.outer, to.size), index), to.inner), at.inner);
}

/// What the operator adds to, zeros if nothing else, in the type in which it
/// is computed.
Value IndexSum::getStart(Value at) {
  if (Value base = k.plan.getBase(op))
    return load(base, at);
  return constantScalar(b, loc, getComputed(), 0);
}

/// In place of what it adds to, the operator finds it there.
void IndexSum::beginUnlessInPlace() {
  if (Value base = k.plan.getBase(op))
    k.beginIf(LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::ne,
                                   k.getMemory(base),
                                   k.getMemory(op->getResult(0))));
}

Value IndexSum::isValid(Value index) {
  return compare(arith::CmpIPredicate::ult, index, k.constant(to.size));
}

/// Inserts into a branch that is taken where 0 <= index < size; elsewhere an
/// error is reported.
void IndexSum::beginChecked(Value index) {
  auto choice = scf::IfOp::create(b, loc, TypeRange{}, isValid(index),
                                  /*withElseRegion=*/true);
  b.setInsertionPoint(choice.elseBlock()->getTerminator());
  k.reportIndex(k.constant(getSite(op)), index, k.constant(to.size));
  b.setInsertionPoint(choice.thenBlock()->getTerminator());
}

void IndexSum::addTo(Value sum, Value target, const Place &at) {
  Value sofar = k.load(sum, target, getComputed());
  k.store(sum, target, plus(sofar, loadSource(at)));
}
