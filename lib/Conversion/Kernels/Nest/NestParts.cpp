//===- NestParts.cpp - a nest that several threads share ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parts have ranges of one loop. Where nothing is added up over it, they need
// nothing of one another. Else the loop is cut into blocks, whose number
// depends on sizes alone: each has sums of its own, which are added up in the
// order of blocks, so that a sum has one order for every number of threads.
//
//===----------------------------------------------------------------------===//

#include "Nest/NestEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;

/// Elements that a part has at least of a loop that is vectorised, and a whole
/// multiple of the elements of vectors.
constexpr int64_t kLeastElements = 256;
/// Blocks of a loop: as many as divide well among the cores that there may be.
constexpr int64_t kMostBlocks = 32;
/// Elements of a block: so many for each that it adds up, and in all.
constexpr int64_t kElementsPerSum = 16, kLeastOfBlock = 1 << 12;
/// Bytes of what all blocks add up: a part of a second-level cache.
constexpr int64_t kMostBytes = 256 << 10;

//===----------------------------------------------------------------------===//
// The shared loop
//===----------------------------------------------------------------------===//

bool NestEmitter::addsUpOver(const Nest::Made &info, int group) const {
  return llvm::is_contained(info.reduced, groups[group].front());
}

bool NestEmitter::runsOverShared(const Factors &columns) const {
  return llvm::is_contained(columns, groups[share.loop].front());
}

SmallVector<Value> NestEmitter::getSums(const LoopShare &share) const {
  SmallVector<Value> sums;
  for (const auto &[value, info] : nest.made)
    if (addsUpOver(info, share.loop))
      sums.push_back(value);
  return sums;
}

/// Whether all that depends on sums are numbers, which follow once blocks have
/// been added up.
bool NestEmitter::endsInNumbers() const {
  return llvm::all_of(
             groups,
             [&](const Factors &each) { return isColumn(each.front()); }) &&
         llvm::all_of(infos, [](const MemberInfo &info) {
           return info.level == 0 || info.isRow;
         });
}

/// Whether what each iteration stores is its own or added up, and what is added
/// up, over this loop or another one, is read behind them alone.
bool NestEmitter::canShare(int group) const {
  bool isEnd = endsInNumbers();
  return llvm::all_of(nest.made, [&](const auto &made) {
    const auto &[value, info] = made;
    if (addsUpOver(info, group))
      return !info.isRead || isEnd;
    bool isNumber = info.isRead && !info.reduced.empty();
    bool isBehind = isEnd && (infos[info.member].level > 0 || isNumber);
    return isBehind || !kernel.plan.inMemory.contains(value) ||
           llvm::is_contained(getLayout(value), groups[group].front());
  });
}

/// A loop that is vectorised, as one around a short one may be, is cut where
/// vectors are, so that each element is computed by the same code in any part.
LoopShare NestEmitter::shareIterations(int group) const {
  int64_t inner = 1;
  for (const Factors &other : llvm::drop_begin(groups, group + 1))
    inner *= nest.getSize(other);
  LoopShare share;
  share.count = nest.getSize(groups[group]);
  share.unit = std::max<int64_t>(1, kLeastElements / inner);
  share.loop = group;
  return share;
}

/// Only of rows, or of all there is: what is added up over columns of a row is
/// in registers.
LoopShare NestEmitter::shareBlocks(int group) const {
  LoopShare share = shareIterations(group);
  bool hasRows = llvm::any_of(
      groups, [&](const Factors &other) { return !isColumn(other.front()); });
  if (hasRows && isColumn(groups[group].front()))
    return {};
  int64_t sums = 0, bytes = 0, all = nest.getSize(nest.order);
  for (Value value : getSums(share)) {
    auto type = cast<RankedTensorType>(value.getType());
    sums += type.getNumElements();
    bytes += getStoredBytes(type);
  }
  int64_t most =
      std::min({kMostBlocks, share.countPieces(), all / kLeastOfBlock,
                all / (kElementsPerSum * sums), kMostBytes / bytes});
  if (most < 2)
    return {};
  share.block = llvm::alignTo(llvm::divideCeil(share.count, most), share.unit);
  share.count = llvm::divideCeil(share.count, share.block);
  share.unit = 1;
  return share;
}

/// Blocks cost more than a loop over which nothing is added up, but for one
/// that is too short.
LoopShare NestEmitter::findShare() const {
  constexpr int64_t kEnough = 4;
  LoopShare plain, blocks;
  auto take = [](LoopShare &best, const LoopShare &other) {
    if (other.countPieces() > best.countPieces())
      best = other;
  };
  for (int group : llvm::seq<int>(0, groups.size())) {
    if (!canShare(group))
      continue;
    bool addsUp = !getSums(shareIterations(group)).empty();
    take(addsUp ? blocks : plain,
         addsUp ? shareBlocks(group) : shareIterations(group));
  }
  if (plain.countPieces() >= std::min(kEnough, blocks.countPieces()))
    return plain;
  return blocks;
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

Value NestEmitter::getSumMemory(Value value) const {
  Value memory = blockMemory.lookup(value);
  return memory ? memory : kernel.getMemory(value);
}

/// A loop over the blocks of the part.
void NestEmitter::beginBlock() {
  Value block = kernel.beginLoop(kernel.getPartBounds());
  Value first =
      arith::MulIOp::create(builder, loc, block, kernel.constant(share.block));
  Value end =
      arith::AddIOp::create(builder, loc, first, kernel.constant(share.block));
  Value size = kernel.constant(nest.getSize(groups[share.loop]));
  blockBounds = {first, arith::MinSIOp::create(builder, loc, end, size)};
  for (Value value : getSums(share)) {
    auto type = cast<RankedTensorType>(value.getType());
    Value offset = arith::MulIOp::create(
        builder, loc, block, kernel.constant(type.getNumElements()));
    Value memory = kernel.getPartials(value);
    blockMemory[value] = LLVM::GEPOp::create(
        builder, loc, memory.getType(), getStoredType(type.getElementType()),
        memory, ValueRange{offset}, LLVM::GEPNoWrapFlags::inbounds);
  }
}

/// Sets the elements of what is added up in memory that belong to the part, or
/// to the block.
void NestEmitter::fillOwn(Value value, Value start) {
  OpBuilder::InsertionGuard guard(builder);
  forget();
  Factors layout = getLayout(value);
  for (auto [index, group] : llvm::enumerate(groups))
    if (llvm::is_contained(layout, group.front()))
      inductions[index] = kernel.beginLoop(getBounds(index));
  storeValue(value, start);
}

void NestEmitter::addUpBlocks(const LoopShare &blocks) {
  share = blocks;
  blockMemory.clear();
  forget();
  for (auto [index, member] : llvm::enumerate(nest.members)) {
    Value first = member.op->getResult(0);
    if (!addsUpOver(nest.lookup(first), share.loop))
      continue;
    int64_t count = cast<RankedTensorType>(first.getType()).getNumElements();
    if (nest.lookup(first).isRead)
      addUpNumber(infos[index].generic);
    else
      emitSum(infos[index].generic, count);
  }
  if (!endsInNumbers())
    return;
  allocateBuffers(
      [&](const Factors &columns) { return !runsOverShared(columns); });
  currentLevel = 0;
  for (const Factors &columns : getDomains(0))
    if (!runsOverShared(columns))
      emitPhase(0, columns);
  for (currentLevel = 1; currentLevel <= maxLevel; ++currentLevel)
    emitRowMembers(currentLevel);
}

SmallVector<Value> NestEmitter::loadPartials(linalg::GenericOp op, Value at) {
  SmallVector<Value> scalars;
  for (Value result : op->getResults())
    scalars.push_back(
        kernel.load(kernel.getPartials(result), at,
                    cast<RankedTensorType>(result.getType()).getElementType()));
  return scalars;
}

/// A sum that other members read.
void NestEmitter::addUpNumber(linalg::GenericOp op) {
  SmallVector<Value> first = loadPartials(op, kernel.constant(0));
  auto loop = scf::ForOp::create(builder, loc, kernel.constant(1),
                                 kernel.constant(share.count),
                                 kernel.constant(1), first);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    SmallVector<Value> sofar(loop.getRegionIterArgs());
    scf::YieldOp::create(
        builder, loc,
        combine(op, sofar, loadPartials(op, loop.getInductionVar())));
  }
  for (auto [result, total] :
       llvm::zip_equal(op->getResults(), loop.getResults())) {
    rowValues[result] = total;
    if (kernel.plan.inMemory.contains(result))
      storeValue(result, total);
  }
}

/// The first block's, to which those of the others are added: a loop over
/// elements inside of one over blocks, as it can be vectorised.
void NestEmitter::emitSum(linalg::GenericOp op, int64_t count) {
  auto forElements = [&](llvm::function_ref<void(Value)> body) {
    OpBuilder::InsertionGuard guard(builder);
    body(kernel.beginLoop(count));
  };
  auto storeAll = [&](Value at, ValueRange scalars) {
    for (auto [result, scalar] : llvm::zip_equal(op->getResults(), scalars))
      kernel.store(kernel.getMemory(result), at, scalar);
  };
  forElements([&](Value at) { storeAll(at, loadPartials(op, at)); });
  OpBuilder::InsertionGuard guard(builder);
  Value block =
      kernel.beginLoop({kernel.constant(1), kernel.constant(share.count)});
  Value begin =
      arith::MulIOp::create(builder, loc, block, kernel.constant(count));
  forElements([&](Value at) {
    Value place = arith::AddIOp::create(builder, loc, begin, at);
    SmallVector<Value> sofar;
    for (Value result : op->getResults())
      sofar.push_back(kernel.load(
          kernel.getMemory(result), at,
          cast<RankedTensorType>(result.getType()).getElementType()));
    storeAll(at, combine(op, sofar, loadPartials(op, place)));
  });
}

/// What two ranges of elements reduce to together: of a sum, a product or an
/// extreme the operator itself, of a largest element and its place the former,
/// of equal ones that which comes first.
SmallVector<Value> NestEmitter::combine(linalg::GenericOp op, ValueRange a,
                                        ValueRange b) {
  Operation *yield = op.getRegion().front().getTerminator();
  if (yield->getNumOperands() == 1) {
    Operation *combined = builder.clone(*yield->getOperand(0).getDefiningOp());
    combined->setOperands({a[0], b[0]});
    return {combined->getResult(0)};
  }
  auto compare = [&](arith::CmpIPredicate predicate, Value x,
                     Value y) -> Value {
    return arith::CmpIOp::create(builder, loc, predicate, x, y);
  };
  auto compareFloat = [&](arith::CmpFPredicate predicate, Value x,
                          Value y) -> Value {
    return arith::CmpFOp::create(builder, loc, predicate, x, y);
  };
  auto both = [&](Value x, Value y) -> Value {
    return arith::AndIOp::create(builder, loc, x, y);
  };
  auto either = [&](Value x, Value y) -> Value {
    return arith::OrIOp::create(builder, loc, x, y);
  };
  Value larger, same;
  if (isa<FloatType>(a[0].getType())) {
    // A NaN is larger than every number.
    larger = both(compareFloat(arith::CmpFPredicate::UGT, b[0], a[0]),
                  compareFloat(arith::CmpFPredicate::ORD, a[0], a[0]));
    same = either(compareFloat(arith::CmpFPredicate::OEQ, a[0], b[0]),
                  both(compareFloat(arith::CmpFPredicate::UNO, a[0], a[0]),
                       compareFloat(arith::CmpFPredicate::UNO, b[0], b[0])));
  } else {
    bool isBool = a[0].getType().isInteger(1);
    larger =
        compare(isBool ? arith::CmpIPredicate::ugt : arith::CmpIPredicate::sgt,
                b[0], a[0]);
    same = compare(arith::CmpIPredicate::eq, a[0], b[0]);
  }
  Value earlier = compare(arith::CmpIPredicate::slt, b[1], a[1]);
  Value take = either(larger, both(same, earlier));
  return {arith::SelectOp::create(builder, loc, take, b[0], a[0]),
          arith::SelectOp::create(builder, loc, take, b[1], a[1])};
}
