//===- CpuOwnLoops.cpp - operators with own loops, on a CPU ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sums at an index are loops over the positions; parts have ranges of what is
// beside the dimension of the index.
//
//===----------------------------------------------------------------------===//

#include "Cpu/CpuKernel.h"
#include "Nest/IndexSum.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tandem;

namespace {
class CpuIndexSum : public IndexSum {
public:
  CpuIndexSum(KernelEmitter &kernel, Operation *op) : IndexSum(kernel, op) {}
  void emit();
  LoopShare findShare() const;

private:
  bool isWidened() const {
    return getComputed() != getElementType(op->getResult(0));
  }
  bool sharesOuter() const { return from.outer > 1; }
  Value beginElements();
  Value beginShared(int64_t count, bool isShared);
};
} // namespace

/// Elements that differ beside the dimension of the index have no term in
/// common. A table in a wider type is one thread's.
LoopShare CpuIndexSum::findShare() const {
  constexpr int64_t kLine = 16; // elements of f32 in a line of a cache
  if (isWidened() || from.outer != to.outer || from.inner != to.inner)
    return {};
  if (sharesOuter())
    return {.count = from.outer};
  return {.count = from.inner, .unit = kLine};
}

/// A loop over the elements of the table.
Value CpuIndexSum::beginElements() {
  if (!k.isShared())
    return k.beginLoop(getNumElements());
  auto [first, end] = k.getPartBounds();
  int64_t each = to.size * to.inner;
  if (sharesOuter())
    return k.beginLoop({mul(first, each), mul(end, each)});
  Value row = k.beginLoop(to.outer * to.size);
  return add(mul(row, to.inner), k.beginLoop({first, end}));
}

Value CpuIndexSum::beginShared(int64_t count, bool isShared) {
  return k.isShared() && isShared ? k.beginLoop(k.getPartBounds())
                                  : k.beginLoop(count);
}

void CpuIndexSum::emit() {
  Value result = op->getResult(0), sum = k.getMemory(result);
  if (isWidened())
    sum = k.allocate(getNumElements(), getComputed());
  {
    OpBuilder::InsertionGuard guard(b);
    if (!isWidened())
      beginUnlessInPlace();
    Value at = beginElements();
    k.store(sum, at, getStart(at));
  }
  {
    OpBuilder::InsertionGuard guard(b);
    Place at;
    auto beginInner = [&] {
      at.inner = beginShared(from.inner, !sharesOuter());
    };
    at.outer = beginShared(from.outer, sharesOuter());
    at.place = k.beginLoop(from.size);
    if (!isOfRows)
      beginInner();
    Value index = loadIndex(at);
    beginChecked(index);
    if (isOfRows)
      beginInner();
    addTo(sum, getTarget(at, index), at);
  }
  if (!isWidened())
    return;
  OpBuilder::InsertionGuard guard(b);
  Value at = k.beginLoop(getNumElements());
  storeTo(result, at, k.load(sum, at, getComputed()));
}

void CpuKernelEmitter::emitIndexSum(Operation *op) {
  CpuIndexSum(*this, op).emit();
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

/// Images of all channels.
static int64_t countImages(nn::MaxPoolOp op) {
  ArrayRef<int64_t> shape = op.getValues().getType().getShape();
  int64_t count = 1;
  for (int64_t size : shape.drop_back(op.getKernel().size()))
    count *= size;
  return count;
}

LoopShare CpuKernelEmitter::findOwnLoopShare(Operation *op) {
  auto ofOuter = [](auto along) -> LoopShare {
    return {.count = Around(along.getInput(), along.getDim()).outer};
  };
  return llvm::TypeSwitch<Operation *, LoopShare>(op)
      .Case<nn::CumsumOp, nn::TopkOp>(ofOuter)
      .Case([](nn::MaxPoolOp pool) -> LoopShare {
        return {.count = countImages(pool)};
      })
      .Default(
          [&](Operation *sum) { return CpuIndexSum(*this, sum).findShare(); });
}
