//===- OwnLoops.cpp - operators with own loops ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Nest/OwnLoops.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem/Conversion/NNToLinalg/NNToLinalg.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;

namespace {

class Writer : public OwnLoopEmitter {
public:
  using OwnLoopEmitter::OwnLoopEmitter;

  Value isNaN(Value x) {
    return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, x, x);
  }
  Value isBefore(Value x, Value y, bool largest);
  Value isSame(Value x, Value y);

  /// A row whose indices are sorted in the halves of `buffer`.
  struct SortedRow {
    Value buffer, base;
    int64_t size, stride;
    /// Where the half that is read begins, and the one that is written.
    Value from, to;
  };

  void cumsum(nn::CumsumOp op);
  void topk(nn::TopkOp op);
  void maxPool(nn::MaxPoolOp op);

private:
  void selectFirst(nn::TopkOp op, const Around &from, Value base, Value to);
  void sortFirst(nn::TopkOp op, const Around &from, Value base, Value to,
                 Value buffer);
  void sortIndices(nn::TopkOp op, SortedRow row, int64_t numPasses);
  void mergeRuns(nn::TopkOp op, const SortedRow &row, Value begin, Value width);
  Value isRightNext(nn::TopkOp op, const SortedRow &row, Value left, Value mid,
                    Value right, Value end);
  std::pair<Value, Value> selectNext(Value input, Value base, int64_t size,
                                     int64_t stride, Value lastValue,
                                     Value lastIndex, bool largest);

  /// An element and its index in the image.
  struct Found {
    Value element, index;
  };
  std::pair<Value, Value> getInside(nn::MaxPoolOp op, size_t dim, Value begin);
  Found findLargest(nn::MaxPoolOp op, size_t dim, ArrayRef<Value> begins,
                    Value image, Value row, Found before);
};

} // namespace

void Writer::cumsum(nn::CumsumOp op) {
  Around shape(op.getInput(), op.getDim());
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Value> rows = k.beginThreads({shape.outer, shape.inner});
  Value outer = rows[0], inner = rows[1];
  Value base = add(mul(outer, shape.size * shape.inner), inner);
  Type type = getComputeType(getElementType(op.getInput()));
  Value start = constantScalar(b, loc, type, 0);
  auto loop = scf::ForOp::create(b, loc, k.constant(0), k.constant(shape.size),
                                 k.constant(1), start);
  b.setInsertionPointToStart(loop.getBody());
  Value at = add(base, mul(loop.getInductionVar(), shape.inner));
  Value sum = plus(loop.getRegionIterArg(0), load(op.getInput(), at));
  storeTo(op.getResult(), at, sum);
  scf::YieldOp::create(b, loc, sum);
}

//===----------------------------------------------------------------------===//
// Top k
//===----------------------------------------------------------------------===//

/// NaN is larger than every number.
Value Writer::isBefore(Value x, Value y, bool largest) {
  if (!isa<FloatType>(x.getType())) {
    bool isBool = x.getType().isInteger(1);
    auto greater =
        isBool ? arith::CmpIPredicate::ugt : arith::CmpIPredicate::sgt;
    return largest ? compare(greater, x, y) : compare(greater, y, x);
  }
  if (!largest)
    std::swap(x, y);
  Value greater =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UGT, x, y);
  Value number = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::ORD, y, y);
  return both(greater, number);
}

Value Writer::isSame(Value x, Value y) {
  if (!isa<FloatType>(x.getType()))
    return compare(arith::CmpIPredicate::eq, x, y);
  Value equal = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, x, y);
  return either(equal, both(isNaN(x), isNaN(y)));
}

/// The first element, in the order asked for, behind (lastValue, lastIndex);
/// lastIndex is -1 at the start.
std::pair<Value, Value> Writer::selectNext(Value input, Value base,
                                           int64_t size, int64_t stride,
                                           Value lastValue, Value lastIndex,
                                           bool largest) {
  OpBuilder::InsertionGuard guard(b);
  Value none = k.constant(-1);
  auto loop = scf::ForOp::create(b, loc, k.constant(0), k.constant(size),
                                 k.constant(1), ValueRange{lastValue, none});
  b.setInsertionPointToStart(loop.getBody());
  Value index = loop.getInductionVar();
  Value value = load(input, add(base, mul(index, stride)));
  Value isFirst = compare(arith::CmpIPredicate::slt, lastIndex, k.constant(0));
  Value isBehind = both(isSame(value, lastValue),
                        compare(arith::CmpIPredicate::sgt, index, lastIndex));
  Value isLeft =
      either(isFirst, either(isBefore(lastValue, value, largest), isBehind));
  Value best = loop.getRegionIterArg(0), bestIndex = loop.getRegionIterArg(1);
  Value isNew = compare(arith::CmpIPredicate::slt, bestIndex, k.constant(0));
  Value take = both(isLeft, either(isNew, isBefore(value, best, largest)));
  scf::YieldOp::create(
      b, loc,
      ValueRange{arith::SelectOp::create(b, loc, take, value, best),
                 arith::SelectOp::create(b, loc, take, index, bestIndex)});
  return {loop.getResult(0), loop.getResult(1)};
}

/// One element after the other, each found by a pass over the row.
void Writer::selectFirst(nn::TopkOp op, const Around &from, Value base,
                         Value to) {
  Type type = getComputeType(getElementType(op.getInput()));
  Value start = constantScalar(b, loc, type, 0);
  auto loop =
      scf::ForOp::create(b, loc, k.constant(0), k.constant(op.getK()),
                         k.constant(1), ValueRange{start, k.constant(-1)});
  b.setInsertionPointToStart(loop.getBody());
  auto [value, index] = selectNext(op.getInput(), base, from.size, from.inner,
                                   loop.getRegionIterArg(0),
                                   loop.getRegionIterArg(1), op.getLargest());
  Value at = add(to, mul(loop.getInductionVar(), from.inner));
  storeTo(op.getValues(), at, value);
  storeTo(op.getIndices(), at, index);
  scf::YieldOp::create(b, loc, ValueRange{value, index});
}

/// The next of two sorted runs of indices, `left` before `mid` and `right`
/// before `end`; of equal elements the left one, which came first.
Value Writer::isRightNext(nn::TopkOp op, const SortedRow &row, Value left,
                          Value mid, Value right, Value end) {
  auto less = arith::CmpIPredicate::slt;
  Value hasLeft = compare(less, left, mid),
        hasRight = compare(less, right, end);
  auto valueAt = [&](Value has, Value at) {
    Value safe = arith::SelectOp::create(b, loc, has, at, k.constant(0));
    Value index = k.load(row.buffer, add(row.from, safe), b.getI64Type());
    return load(op.getInput(), add(row.base, mul(index, row.stride)));
  };
  Value isSmaller = isBefore(valueAt(hasRight, right), valueAt(hasLeft, left),
                             op.getLargest());
  Value no = arith::ConstantIntOp::create(b, loc, b.getI1Type(), 0);
  Value yes = arith::ConstantIntOp::create(b, loc, b.getI1Type(), 1);
  Value beside = arith::SelectOp::create(b, loc, hasLeft, isSmaller, yes);
  return arith::SelectOp::create(b, loc, hasRight, beside, no);
}

/// Merges the runs that begin at `begin` and, `width` further on, behind it.
void Writer::mergeRuns(nn::TopkOp op, const SortedRow &row, Value begin,
                       Value width) {
  OpBuilder::InsertionGuard guard(b);
  Value size = k.constant(row.size);
  auto clamp = [&](Value at) -> Value {
    return arith::MinSIOp::create(b, loc, at, size);
  };
  Value mid = clamp(add(begin, width)), end = clamp(add(mid, width));
  auto loop = scf::ForOp::create(b, loc, begin, end, k.constant(1),
                                 ValueRange{begin, mid});
  b.setInsertionPointToStart(loop.getBody());
  Value left = loop.getRegionIterArg(0), right = loop.getRegionIterArg(1);
  Value isRight = isRightNext(op, row, left, mid, right, end);
  Value at = arith::SelectOp::create(b, loc, isRight, right, left);
  Value index = k.load(row.buffer, add(row.from, at), b.getI64Type());
  k.store(row.buffer, add(row.to, loop.getInductionVar()), index);
  Value step = arith::ExtUIOp::create(b, loc, b.getI64Type(), isRight);
  Value other = arith::SubIOp::create(b, loc, k.constant(1), step);
  scf::YieldOp::create(b, loc, ValueRange{add(left, other), add(right, step)});
}

/// All indices, in order, by merging runs of twice the width in each of
/// log2(size) passes from one half of the buffer to the other.
void Writer::sortIndices(nn::TopkOp op, SortedRow row, int64_t numPasses) {
  {
    OpBuilder::InsertionGuard guard(b);
    Value index = k.beginLoop(row.size);
    k.store(row.buffer, index, index);
  }
  OpBuilder::InsertionGuard guard(b);
  Value pass = k.beginLoop(numPasses);
  Value width = arith::ShLIOp::create(b, loc, k.constant(1), pass);
  Value parity = arith::AndIOp::create(b, loc, pass, k.constant(1));
  row.from = mul(parity, row.size);
  row.to = arith::SubIOp::create(b, loc, k.constant(row.size), row.from);
  auto runs = scf::ForOp::create(b, loc, k.constant(0), k.constant(row.size),
                                 add(width, width));
  b.setInsertionPoint(runs.getBody()->getTerminator());
  mergeRuns(op, row, runs.getInductionVar(), width);
}

void Writer::sortFirst(nn::TopkOp op, const Around &from, Value base, Value to,
                       Value buffer) {
  int64_t numPasses = llvm::Log2_64_Ceil(from.size);
  sortIndices(op, {buffer, base, from.size, from.inner, {}, {}}, numPasses);
  Value end = k.constant(numPasses % 2 * from.size);
  Value place = k.beginLoop(op.getK());
  Value index = k.load(buffer, add(end, place), b.getI64Type());
  Value at = add(to, mul(place, from.inner));
  storeTo(op.getValues(), at,
          load(op.getInput(), add(base, mul(index, from.inner))));
  storeTo(op.getIndices(), at, index);
}

void Writer::topk(nn::TopkOp op) {
  Around from(op.getInput(), op.getDim());
  // A step of merging costs about four of a pass that looks for one element.
  int64_t numPasses = llvm::Log2_64_Ceil(from.size);
  bool isSorted = static_cast<int64_t>(op.getK()) > 4 * (1 + numPasses);
  OpBuilder::InsertionGuard guard(b);
  SmallVector<int64_t> counts = {from.outer, from.inner};
  SmallVector<Value> rows = k.beginThreads(counts);
  Value outer = rows[0], inner = rows[1];
  Value buffer =
      isSorted ? k.allocateOwn(rows, counts, 2 * from.size, b.getI64Type())
               : Value();
  Value base = add(mul(outer, from.size * from.inner), inner);
  Value to =
      add(mul(outer, static_cast<int64_t>(op.getK()) * from.inner), inner);
  if (isSorted)
    sortFirst(op, from, base, to, buffer);
  else
    selectFirst(op, from, base, to);
}

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

/// Of a window that begins at `begin`, which may be before the input, the range
/// of the kernel that lies in it.
std::pair<Value, Value> Writer::getInside(nn::MaxPoolOp op, size_t dim,
                                          Value begin) {
  int64_t dilation = op.getDilation()[dim];
  auto divideUp = [&](Value x) -> Value {
    x = arith::MaxSIOp::create(b, loc, x, k.constant(0));
    if (dilation == 1)
      return x;
    return arith::DivUIOp::create(b, loc, add(x, k.constant(dilation - 1)),
                                  k.constant(dilation));
  };
  size_t rank = op.getInput().getType().getRank();
  int64_t size =
      op.getInput().getType().getDimSize(rank - op.getKernel().size() + dim);
  Value before = arith::SubIOp::create(b, loc, k.constant(0), begin);
  Value rest = arith::SubIOp::create(b, loc, k.constant(size), begin);
  Value end = arith::MinSIOp::create(b, loc, divideUp(rest),
                                     k.constant(op.getKernel()[dim]));
  return {divideUp(before), end};
}

/// The largest element of a window from its dimension `dim` on, and `before`.
/// The window begins at `begins`, `row` is the index of the dimensions before.
Writer::Found Writer::findLargest(nn::MaxPoolOp op, size_t dim,
                                  ArrayRef<Value> begins, Value image,
                                  Value row, Found before) {
  if (dim == begins.size()) {
    Value element = load(op.getInput(), add(image, row));
    Value take =
        compare(arith::CmpIPredicate::slt, before.index, k.constant(0));
    // A NaN is taken, and stays unless another one follows.
    Value isGreater = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT,
                                            element, before.element);
    take = either(take, either(isGreater, isNaN(element)));
    return {arith::SelectOp::create(b, loc, take, element, before.element),
            arith::SelectOp::create(b, loc, take, row, before.index)};
  }
  OpBuilder::InsertionGuard guard(b);
  auto [from, to] = getInside(op, dim, begins[dim]);
  auto loop = scf::ForOp::create(b, loc, from, to, k.constant(1),
                                 ValueRange{before.element, before.index});
  b.setInsertionPointToStart(loop.getBody());
  Value x =
      add(begins[dim], mul(loop.getInductionVar(), op.getDilation()[dim]));
  size_t rank = op.getInput().getType().getRank();
  int64_t size = op.getInput().getType().getDimSize(rank - begins.size() + dim);
  Found found =
      findLargest(op, dim + 1, begins, image, add(mul(row, size), x),
                  {loop.getRegionIterArg(0), loop.getRegionIterArg(1)});
  scf::YieldOp::create(b, loc, ValueRange{found.element, found.index});
  return {loop.getResult(0), loop.getResult(1)};
}

void Writer::maxPool(nn::MaxPoolOp op) {
  size_t dims = op.getKernel().size();
  ArrayRef<int64_t> from = op.getInput().getType().getShape(),
                    to = op.getValues().getType().getShape();
  auto count = [](ArrayRef<int64_t> shape) {
    int64_t product = 1;
    for (int64_t size : shape)
      product *= size;
    return product;
  };
  OpBuilder::InsertionGuard guard(b);
  SmallVector<int64_t> counts = {count(to.drop_back(dims))};
  llvm::append_range(counts, to.take_back(dims));
  SmallVector<Value> loops = k.beginThreads(counts);
  Value at = loops[0], image = mul(at, count(from.take_back(dims)));
  SmallVector<Value> begins;
  for (size_t dim = 0; dim < dims; ++dim) {
    Value y = loops[dim + 1];
    at = add(mul(at, counts[dim + 1]), y);
    begins.push_back(
        add(mul(y, op.getStride()[dim]), k.constant(-op.getPadding()[dim])));
  }
  Type type = getComputeType(getElementType(op.getInput()));
  Found none{constantScalar(b, loc, type, 0), k.constant(-1)};
  Found found = findLargest(op, 0, begins, image, k.constant(0), none);
  storeTo(op.getValues(), at, found.element);
  storeTo(op.getIndices(), at, found.index);
}

void tandem::emitOwnLoop(KernelEmitter &kernel, Operation *op) {
  Writer writer(kernel);
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](nn::CumsumOp cumsum) { writer.cumsum(cumsum); })
      .Case([&](nn::TopkOp topk) { writer.topk(topk); })
      .Case([&](nn::MaxPoolOp pool) { writer.maxPool(pool); })
      .Default([&](Operation *sum) { kernel.emitIndexSum(sum); });
}
