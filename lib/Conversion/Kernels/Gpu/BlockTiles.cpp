//===- BlockTiles.cpp - transposes through shared memory ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where nothing is reduced, neighbours of the nest's innermost loop, its
// *columns*, are computed by neighbouring threads. What these would read far
// apart, as it is contiguous along another loop, the *lines*, a block reads in
// squares: along the lines into shared memory, and out of it along the columns.
//
//===----------------------------------------------------------------------===//

#include "Gpu/BlockNest.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;

/// Elements of a square's side: a warp reads and writes neighbours.
constexpr int64_t kSide = kWarp;
/// Elements between rows in shared memory, so that those of a column lie in
/// different banks.
constexpr int64_t kPitch = kSide + 1;
/// Loops that are shorter fill too little of a square.
constexpr int64_t kLeastSide = kSide / 2;
/// Shared memory for tiles, of the 48 KiB that every block may have.
constexpr int64_t kMaxTileBytes = 40 << 10;

/// Of an element in shared memory, in bytes: narrow ones have a bank each.
static int64_t getSlotBytes(Value value) {
  constexpr int64_t kBank = 4;
  auto type = cast<RankedTensorType>(value.getType());
  return std::max(kBank, getStoredBytes(type.getElementType()));
}

static int64_t getTileBytes(Value value) {
  return llvm::alignTo(kSide * kPitch * getSlotBytes(value), 16);
}

//===----------------------------------------------------------------------===//
// What is tiled
//===----------------------------------------------------------------------===//

/// The loop along which the elements are neighbours, if the innermost one
/// leaps; else -1.
int BlockNestEmitter::findLoopAlong(const LinearIndex &at) const {
  auto isLong = [&](int group) {
    return nest.getSize(groups[group]) >= kLeastSide;
  };
  int last = groups.size() - 1;
  int64_t step = at.getCoefficient(groups[last].back());
  if (!at.values.empty() || step == 0 || step == 1 || !isLong(last))
    return -1;
  for (int group = 0; group < last; ++group)
    if (at.getCoefficient(groups[group].back()) == 1 && isLong(group))
      return group;
  return -1;
}

/// Whether all that is stored has an element for each iteration of all loops.
bool BlockNestEmitter::canTile() const {
  if (!isElementwise || recording || groups.size() < 2 || maxLevel > 0)
    return false;
  for (auto [index, info] : llvm::enumerate(infos)) {
    Value value = nest.members[index].op->getResult(0);
    bool isStored = kernel.plan.inMemory.contains(value);
    if (info.isRow || info.isReduction ||
        (isStored && info.columns.size() != nest.order.size()))
      return false;
  }
  return true;
}

/// All along one loop, that of the first one.
void BlockNestEmitter::chooseTiles() {
  tiles.clear();
  if (!canTile())
    return;
  int64_t bytes = 0;
  for (const auto &[value, at] : loads) {
    int group = findLoopAlong(at);
    int64_t own = getTileBytes(value);
    if (group < 0 || (!tiles.empty() && group != lines) ||
        bytes + own > kMaxTileBytes)
      continue;
    lines = group;
    tiles.push_back({value, at, bytes});
    bytes += own;
  }
  if (!tiles.empty())
    kernel.getShared(bytes);
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

/// A block's squares, one after the other.
void BlockNestEmitter::emitTiles() {
  forget();
  currentLevel = 0;
  int columns = groups.size() - 1;
  SmallVector<int64_t> counts;
  int64_t total = 1;
  for (auto [group, factors] : llvm::enumerate(groups)) {
    bool isCut =
        static_cast<int>(group) == lines || static_cast<int>(group) == columns;
    int64_t size = nest.getSize(factors);
    counts.push_back(isCut ? llvm::divideCeil(size, kSide) : size);
    total *= counts.back();
  }
  kernel.useBlocks(std::min(total, kernel.gpu.maxBlocks),
                   kernel.gpu.blockThreads);
  auto loop = scf::ForOp::create(builder, loc, kernel.getBlock(),
                                 kernel.constant(total), kernel.getNumBlocks());
  builder.setInsertionPoint(loop.getBody()->getTerminator());
  SmallVector<Value> own = kernel.delinearize(loop.getInductionVar(), counts);
  for (auto [group, index] : llvm::enumerate(own))
    inductions[group] = index;
  auto scale = [&](Value index) -> Value {
    return arith::MulIOp::create(builder, loc, index, kernel.constant(kSide));
  };
  Value line = scale(own[lines]), column = scale(own[columns]);
  Value thread = kernel.getThread(), side = kernel.constant(kSide);
  Value lane = arith::RemUIOp::create(builder, loc, thread, side);
  Value row = arith::DivUIOp::create(builder, loc, thread, side);
  fillTiles(line, column, lane, row);
  kernel.emitBarrier();
  emitTileElements(line, column, lane, row);
  kernel.emitBarrier(); // before the next square is filled
}

/// Sets the inductions of a square's element, and inserts where it is one of
/// the loops'. The index in shared memory.
Value BlockNestEmitter::beginTileElement(Value line, Value column, Value inLine,
                                         Value inColumn) {
  int columns = groups.size() - 1;
  inductions[lines] = arith::AddIOp::create(builder, loc, line, inLine);
  inductions[columns] = arith::AddIOp::create(builder, loc, column, inColumn);
  auto isInside = [&](int group) -> Value {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt,
                                 inductions[group],
                                 kernel.constant(nest.getSize(groups[group])));
  };
  kernel.beginIf(
      arith::AndIOp::create(builder, loc, isInside(lines), isInside(columns)));
  Value start =
      arith::MulIOp::create(builder, loc, inColumn, kernel.constant(kPitch));
  return arith::AddIOp::create(builder, loc, start, inLine);
}

/// A thread has every so many rows of a square.
void BlockNestEmitter::forRowsOfTile(Value row,
                                     llvm::function_ref<void(Value)> body) {
  int64_t step = kernel.gpu.blockThreads / kSide;
  for (int64_t first = 0; first < kSide; first += step) {
    OpBuilder::InsertionGuard guard(builder);
    body(arith::AddIOp::create(builder, loc, row, kernel.constant(first)));
  }
}

/// The place of an element in a tile.
Value BlockNestEmitter::getTileMemory(const Tile &tile, Value place) {
  Value shared = kernel.getShared(0);
  Value offset = arith::MulIOp::create(
      builder, loc, place, kernel.constant(getSlotBytes(tile.value)));
  offset =
      arith::AddIOp::create(builder, loc, offset, kernel.constant(tile.begin));
  return LLVM::GEPOp::create(builder, loc, shared.getType(),
                             builder.getI8Type(), shared, ValueRange{offset});
}

void BlockNestEmitter::fillTiles(Value line, Value column, Value lane,
                                 Value row) {
  forRowsOfTile(row, [&](Value own) {
    Value place = beginTileElement(line, column, lane, own);
    for (const Tile &tile : tiles)
      kernel.store(getTileMemory(tile, place), kernel.constant(0),
                   NestEmitter::loadElement(tile.value, tile.at));
  });
}

void BlockNestEmitter::emitTileElements(Value line, Value column, Value lane,
                                        Value row) {
  Factors all;
  for (const Factors &group : groups)
    all.append(group);
  forRowsOfTile(row, [&](Value own) {
    tilePlace = beginTileElement(line, column, own, lane);
    scopes.emplace_back();
    for (Value root : getRoots(0, getColumns(all)))
      storeValue(root, evaluatePlaced(root));
    scopes.pop_back();
  });
  tilePlace = nullptr;
}

Value BlockNestEmitter::loadElement(Value value, const LinearIndex &at) {
  auto isSame = [&](Value other, const LinearIndex &otherAt) {
    return other == value && !(otherAt < at) && !(at < otherAt);
  };
  if (recording && llvm::none_of(loads, [&](const auto &load) {
        return isSame(load.first, load.second);
      }))
    loads.push_back({value, at});
  auto tile = llvm::find_if(
      tiles, [&](const Tile &tile) { return isSame(tile.value, tile.at); });
  if (!tilePlace || tile == tiles.end())
    return NestEmitter::loadElement(value, at);
  return kernel.load(getTileMemory(*tile, tilePlace), kernel.constant(0),
                     cast<RankedTensorType>(value.getType()).getElementType());
}
