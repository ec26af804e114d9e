//===- GpuIndexSum.cpp - sums at an index, on a GPU -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In one of two ways, both without an addition whose place in the order depends
// on who comes first:
//   chains  where an element gets few terms: a warp for each index finds the
//           next position of the same index, and whether there is one before;
//           a thread at the first one follows the chain. The order is that of
//           a loop over the positions.
//   chunks  where each gets many: a table of sums for each chunk of positions,
//           added up in the order of chunks.
//
//===----------------------------------------------------------------------===//

#include "Gpu/GpuKernel.h"
#include "Nest/IndexSum.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;

/// Columns of which each has a thread where this is enough for a GPU.
constexpr int64_t kEnoughThreads = 1 << 15;
/// Indices times those that each is compared with, at most: beyond, looking
/// takes longer than a thread per column adding.
constexpr int64_t kMaxPositions = 1 << 21;

namespace {
class GpuIndexSum : public IndexSum {
public:
  GpuIndexSum(GpuKernelEmitter &kernel, Operation *op)
      : IndexSum(kernel, op), k(kernel) {}
  void emit();

private:
  int64_t countChunks() const;
  bool canChain() const;
  void addByChunks(int64_t chunks);
  void addUpChunks(int64_t table, int64_t chunks);
  void addByChains();
  void emitStarts();
  void emitLinks(int64_t links);
  std::pair<Value, Value> findSame(const Place &at, Value lane, Value index);
  void followChains(int64_t links);

  GpuKernelEmitter &k;
};
} // namespace

//===----------------------------------------------------------------------===//
// By chunks
//===----------------------------------------------------------------------===//

/// As many as have each element get some 32 terms in each; 1 where columns
/// alone are threads enough.
int64_t GpuIndexSum::countChunks() const {
  if (to.outer * to.inner >= kEnoughThreads)
    return 1;
  int64_t chunks = from.size / (kWarp * to.size);
  return std::clamp<int64_t>(chunks, 1, k.gpu.maxPartialBlocks);
}

/// Each thread has the elements of a table that differ in the one dimension,
/// and adds to them in the order of `from`. One table of the result's type is
/// the result.
void GpuIndexSum::addByChunks(int64_t chunks) {
  Value result = op->getResult(0);
  bool isDirect = chunks == 1 && getComputed() == getElementType(result);
  int64_t table = 0, length = llvm::divideCeil(from.size, chunks);
  if (!isDirect)
    table = k.reserveScratch(chunks * getNumElements() *
                             getStoredBytes(getComputed()));
  Value sum = isDirect ? k.getMemory(result) : k.getScratch(table);
  {
    OpBuilder::InsertionGuard guard(b);
    SmallVector<Value> own = k.beginThreads({chunks, to.outer, to.inner});
    Value first = mul(own[0], getNumElements());
    Place at{own[1], {}, own[2]};
    auto target = [&](Value place) { return add(first, getTarget(at, place)); };
    {
      OpBuilder::InsertionGuard inside(b);
      Value place = target(k.beginLoop(to.size));
      k.store(sum, place,
              isDirect ? getStart(place)
                       : constantScalar(b, loc, getComputed(), 0));
    }
    Value begin = mul(own[0], length);
    Value end = arith::MinSIOp::create(b, loc, add(begin, k.constant(length)),
                                       k.constant(from.size));
    at.place = k.beginLoop({begin, end});
    Value index = loadIndex(at);
    beginChecked(index);
    addTo(sum, target(index), at);
  }
  if (!isDirect)
    addUpChunks(table, chunks);
}

void GpuIndexSum::addUpChunks(int64_t table, int64_t chunks) {
  k.endPart();
  k.beginPart();
  OpBuilder::InsertionGuard guard(b);
  Value at = k.beginThreads(getNumElements()).front(), sum;
  {
    OpBuilder::InsertionGuard inside(b);
    auto loop = scf::ForOp::create(b, loc, k.constant(0), k.constant(chunks),
                                   k.constant(1), ValueRange{getStart(at)});
    b.setInsertionPointToStart(loop.getBody());
    Value place = add(mul(loop.getInductionVar(), getNumElements()), at);
    Value term = k.load(k.getScratch(table), place, getComputed());
    scf::YieldOp::create(b, loc, plus(loop.getRegionIterArg(0), term));
    sum = loop.getResult(0);
  }
  storeTo(op->getResult(0), at, sum);
}

//===----------------------------------------------------------------------===//
// By chains
//===----------------------------------------------------------------------===//

bool GpuIndexSum::canChain() const {
  return from.size > kWarp && from.size <= kMaxPositions &&
         getNumPositions() <= kMaxPositions;
}

/// For each position the next one of the same index, or the end; as its
/// complement if the position is not the first one, or the index is not valid.
void GpuIndexSum::addByChains() {
  int64_t links = k.reserveScratch(getNumPositions() * sizeof(int64_t));
  emitStarts();
  emitLinks(links);
  k.endPart();
  k.beginPart();
  followChains(links);
}

void GpuIndexSum::emitStarts() {
  OpBuilder::InsertionGuard guard(b);
  beginUnlessInPlace();
  Value at = k.beginThreads(getNumElements()).front();
  storeTo(op->getResult(0), at, getStart(at));
}

/// The first position of the index, and the next one; from.size: none. Each
/// lane looks at every 32nd.
std::pair<Value, Value> GpuIndexSum::findSame(const Place &at, Value lane,
                                              Value index) {
  Value end = k.constant(from.size), first, next;
  auto least = [&](Value x, Value y) -> Value {
    return arith::MinSIOp::create(b, loc, x, y);
  };
  {
    OpBuilder::InsertionGuard guard(b);
    auto loop = scf::ForOp::create(b, loc, lane, end, k.constant(kWarp),
                                   ValueRange{end, end});
    b.setInsertionPointToStart(loop.getBody());
    Value other = loop.getInductionVar();
    Value isSame = compare(arith::CmpIPredicate::eq, index,
                           loadIndex({at.outer, other, at.inner}));
    Value isBehind = compare(arith::CmpIPredicate::sgt, other, at.place);
    Value same = select(isSame, other, end);
    Value behind = select(isBehind, same, end);
    scf::YieldOp::create(b, loc,
                         ValueRange{least(loop.getRegionIterArg(0), same),
                                    least(loop.getRegionIterArg(1), behind)});
    first = loop.getResult(0);
    next = loop.getResult(1);
  }
  auto leastOfWarp = [&](Value own) -> Value {
    // An exchange of 64 bits is two; kMaxPositions has fewer than 32.
    own = arith::TruncIOp::create(b, loc, b.getI32Type(), own);
    for (int64_t distance = kWarp / 2; distance > 0; distance /= 2)
      own = least(own, k.shuffle(own, distance));
    return arith::ExtUIOp::create(b, loc, b.getI64Type(), own);
  };
  return {leastOfWarp(first), leastOfWarp(next)};
}

/// A warp for each position. All warps of a block come to the same shuffles:
/// those behind the last position look at that one.
void GpuIndexSum::emitLinks(int64_t links) {
  int64_t positions = getNumPositions(), warps = k.gpu.blockThreads / kWarp;
  int64_t groups = llvm::divideCeil(positions, warps);
  OpBuilder::InsertionGuard guard(b);
  k.useBlocks(std::min(groups, k.gpu.maxBlocks), k.gpu.blockThreads);
  auto loop = scf::ForOp::create(b, loc, k.getBlock(), k.constant(groups),
                                 k.getNumBlocks());
  b.setInsertionPoint(loop.getBody()->getTerminator());
  Value thread = k.getThread(), size = k.constant(kWarp);
  Value lane = arith::RemUIOp::create(b, loc, thread, size);
  Value warp = arith::DivUIOp::create(b, loc, thread, size);
  Value wanted = add(mul(loop.getInductionVar(), warps), warp);
  Value position =
      arith::MinSIOp::create(b, loc, wanted, k.constant(positions - 1));
  SmallVector<Value> parts =
      isOfRows ? SmallVector<Value>{{}, position, {}}
               : k.delinearize(position, {from.outer, from.size, from.inner});
  Place at{parts[0], parts[1], parts[2]};
  Value index = loadIndex(at);
  auto [first, next] = findSame(at, lane, index);
  k.beginIf(
      both(compare(arith::CmpIPredicate::eq, lane, k.constant(0)),
           compare(arith::CmpIPredicate::slt, wanted, k.constant(positions))));
  Value memory = k.getScratch(links);
  Value rest = arith::XOrIOp::create(b, loc, next, k.constant(-1));
  k.store(memory, position, rest);
  beginChecked(index);
  k.beginIf(compare(arith::CmpIPredicate::eq, first, at.place));
  k.store(memory, position, next);
}

/// A thread for each element of the source: at the first one of a chain it
/// adds up all of it.
void GpuIndexSum::followChains(int64_t links) {
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Value> own = k.beginThreads({from.outer, from.size, from.inner});
  Place at{own[0], own[1], own[2]};
  Type number = b.getI64Type();
  auto linkOf = [&](const Place &place) {
    return k.load(k.getScratch(links), getPosition(place), number);
  };
  auto isNegative = [&](Value link) {
    return compare(arith::CmpIPredicate::slt, link, k.constant(0));
  };
  k.beginIf(compare(arith::CmpIPredicate::sge, linkOf(at), k.constant(0)));
  Value target = getTarget(at, loadIndex(at));
  Value start = load(op->getResult(0), target);
  SmallVector<Type> types = {number, getComputed()};
  SmallVector<Location> places(types.size(), loc);
  auto loop = scf::WhileOp::create(b, loc, types, ValueRange{at.place, start});
  {
    OpBuilder::InsertionGuard inside(b);
    Block *before = b.createBlock(&loop.getBefore(), {}, types, places);
    Value isThere = compare(arith::CmpIPredicate::slt, before->getArgument(0),
                            k.constant(from.size));
    scf::ConditionOp::create(b, loc, isThere, before->getArguments());
    Block *after = b.createBlock(&loop.getAfter(), {}, types, places);
    at.place = after->getArgument(0);
    Value sum = plus(after->getArgument(1), loadSource(at)), link = linkOf(at);
    Value rest = arith::XOrIOp::create(b, loc, link, k.constant(-1));
    scf::YieldOp::create(b, loc,
                         ValueRange{select(isNegative(link), rest, link), sum});
  }
  storeTo(op->getResult(0), target, loop.getResult(1));
}

void GpuIndexSum::emit() {
  int64_t chunks = countChunks();
  if (chunks == 1 && canChain())
    addByChains();
  else
    addByChunks(chunks);
}

void GpuKernelEmitter::emitIndexSum(Operation *op) {
  GpuIndexSum(*this, op).emit();
}
