//===- BlockThreads.cpp - elements of a row per thread --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The threads of a team have the elements of its row in turn: those that make
// an access of 16 bytes are one thread's. Where a thread has few of them, they
// are in registers for all levels of the row.
//
//===----------------------------------------------------------------------===//

#include "Gpu/BlockNest.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;

/// Of the widest element, in bytes.
constexpr int64_t kWidestElement = 8;
/// Of the widest access, in bytes.
constexpr int64_t kAccessBytes = 16;
/// Elements of an access at most: of bytes there could be 16.
constexpr int64_t kMaxWidth = 8;
/// Elements of a row that a thread has in registers, and what their operators
/// come to together.
constexpr int64_t kMaxRegisters = 16, kMaxUnrolled = 256;

/// By the narrowest elements, but for single ones and booleans.
int64_t BlockNestEmitter::getMaxWidth() const {
  int64_t bytes = kWidestElement;
  auto look = [&](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (type && type.getNumElements() > 1 &&
        !type.getElementType().isInteger(1))
      bytes = std::min(bytes, getStoredBytes(type.getElementType()));
  };
  for (const auto &member : nest.members) {
    llvm::for_each(member.op->getOperands(), look);
    llvm::for_each(member.op->getResults(), look);
  }
  return std::min(kAccessBytes / bytes, kMaxWidth);
}

/// Neighbours are of the innermost loop.
int64_t BlockNestEmitter::getMaxWidth(ArrayRef<int> loops) const {
  int64_t width = isWide && !loops.empty() ? getMaxWidth() : 1;
  while (width > 1 && nest.getSize(groups[loops.back()]) % width != 0)
    width /= 2;
  return width;
}

bool BlockNestEmitter::canBeWide() const {
  int64_t innermost = 1;
  for (const Factors &group : groups)
    if (isColumn(group.front()))
      innermost = nest.getSize(group);
  return innermost % 2 == 0 && getMaxWidth() > 1;
}

bool BlockNestEmitter::fitsRegisters(int64_t total) const {
  int64_t own = llvm::divideCeil(total, numThreads);
  return !isElementwise && !recording && own <= kMaxRegisters &&
         own * static_cast<int64_t>(nest.members.size()) <= kMaxUnrolled;
}

/// The elements of a chunk, one after the other.
SmallVector<Value> BlockNestEmitter::emitNeighbours(ArrayRef<int> loops,
                                                    int64_t width, Value chunk,
                                                    ValueRange inits,
                                                    Element inner) {
  SmallVector<int64_t> counts;
  for (int loop : loops)
    counts.push_back(nest.getSize(groups[loop]));
  if (!counts.empty())
    counts.back() /= width;
  for (auto [group, index] :
       llvm::zip_equal(loops, kernel.delinearize(chunk, counts)))
    inductions[group] = index;
  if (width == 1)
    return inner(inits);
  Value first = arith::MulIOp::create(builder, loc, inductions[loops.back()],
                                      kernel.constant(width));
  SmallVector<Value> sofar(inits);
  for (int64_t i = 0; i < width; ++i) {
    inductions[loops.back()] =
        arith::AddIOp::create(builder, loc, first, kernel.constant(i));
    sofar = inner(sofar);
  }
  return sofar;
}

/// Where the row is a team's: the threads have the chunks in turn. Where these
/// do not divide by the threads, those that have none of the last ones do the
/// last chunk for nothing.
SmallVector<Value> BlockNestEmitter::emitInRegisters(ArrayRef<int> loops,
                                                     int64_t total,
                                                     ValueRange inits,
                                                     Element inner) {
  int64_t width = getMaxWidth(loops), chunks = total / width;
  int64_t own = llvm::divideCeil(chunks, numThreads);
  auto &known = registers[loops.vec()];
  known.resize(own * width);
  size_t element = 0;
  auto remembering = [&](ValueRange sofar) {
    scopes.push_back(std::move(known[element]));
    SmallVector<Value> results = inner(sofar);
    known[element++] = std::move(scopes.back());
    scopes.pop_back();
    return results;
  };
  SmallVector<Value> sofar(inits);
  for (int64_t chunk = 0; chunk < own; ++chunk) {
    Value at = arith::AddIOp::create(builder, loc, getMember(),
                                     kernel.constant(chunk * numThreads));
    if ((chunk + 1) * numThreads > chunks) {
      isThere = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt,
                                      at, kernel.constant(chunks));
      at = arith::SelectOp::create(builder, loc, isThere, at,
                                   kernel.constant(chunks - 1));
    }
    sofar = emitNeighbours(loops, width, at, sofar, remembering);
    storePending();
  }
  return sofar;
}

void BlockNestEmitter::storePending() {
  if (!isThere)
    return;
  OpBuilder::InsertionGuard guard(builder);
  if (!pending.empty())
    kernel.beginIf(isThere);
  for (Pending &store : pending) {
    std::swap(inductions, store.inductions);
    storeValue(store.root, store.scalar);
    std::swap(inductions, store.inductions);
  }
  pending.clear();
  isThere = nullptr;
}

SmallVector<Value> BlockNestEmitter::emitThreadLoop(ArrayRef<int> loops,
                                                    ValueRange inits,
                                                    Element inner) {
  int64_t total = 1;
  for (int loop : loops)
    total *= nest.getSize(groups[loop]);
  if (fitsRegisters(total))
    return emitInRegisters(loops, total, inits, inner);
  int64_t width = getMaxWidth(loops);
  while (width > 1 &&
         width * static_cast<int64_t>(nest.members.size()) > kMaxUnrolled)
    width /= 2;
  total /= width;
  Value start, step = kernel.constant(numThreads);
  if (!isElementwise) {
    start = getMember();
  } else {
    // Where there are two versions, the grid is that of the wide one.
    kernel.useThreads(recording || isWide != canBeWide() ? 1 : total);
    start = kernel.getGlobalThread();
    Value threads = kernel.constant(kernel.gpu.blockThreads);
    step = arith::MulIOp::create(builder, loc, kernel.getNumBlocks(), threads);
  }
  auto loop = scf::ForOp::create(builder, loc, start, kernel.constant(total),
                                 step, inits);
  OpBuilder::InsertionGuard guard(builder);
  if (inits.empty())
    builder.setInsertionPoint(loop.getBody()->getTerminator());
  else
    builder.setInsertionPointToStart(loop.getBody());
  auto apart = [&](ValueRange sofar) {
    scopes.emplace_back();
    SmallVector<Value> results = inner(sofar);
    scopes.pop_back();
    return results;
  };
  SmallVector<Value> args(loop.getRegionIterArgs());
  SmallVector<Value> results =
      emitNeighbours(loops, width, loop.getInductionVar(), args, apart);
  if (!inits.empty())
    scf::YieldOp::create(builder, loc, results);
  return SmallVector<Value>(loop.getResults());
}
