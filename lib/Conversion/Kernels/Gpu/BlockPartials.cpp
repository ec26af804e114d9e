//===- BlockPartials.cpp - sums over rows of each team --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Gpu/BlockNest.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;

/// Elements of a row that are worth a team, and rows that are worth more than
/// one.
constexpr int64_t kElements = 1024, kLeastRows = 8;
/// Elements of a row at most, where a loop of many is made two.
constexpr int64_t kMostElements = 8 * kElements;
/// Partial sums that a thread reads before it adds the first of them up.
constexpr int64_t kLoadsUnderWay = 16;

/// Where all is summed as one row, a loop that has more elements than a team is
/// worth becomes two, so that it can be divided.
Nest tandem::splitWhole(const Nest &nest) {
  Nest result = nest;
  bool isWhole = llvm::any_of(
      nest.members, [](const auto &member) { return hasReduction(member.op); });
  if (!isWhole || llvm::is_contained(nest.isColumn, true) ||
      nest.getSize(nest.order) < kElements * kLeastRows)
    return result;
  int64_t count = 1;
  for (int factor : llvm::reverse(nest.order)) {
    int64_t size = nest.sizes[factor];
    if (count * size < kElements) {
      count *= size;
      continue;
    }
    int64_t own = llvm::divideCeil(kElements, count);
    while (count * own < kMostElements && size % own != 0)
      ++own;
    if (own < size && size % own == 0)
      result.splitFactor(factor, own);
    break;
  }
  return result;
}

/// What is summed as one row would be a single team's: all but the last
/// dimensions become rows, each of which has as many elements as are worth it.
void BlockNestEmitter::divideWhole() {
  if (groups.size() != 1 || llvm::is_contained(column, true) ||
      nest.getSize(groups.front()) < kElements * kLeastRows)
    return;
  Factors rows = groups.front(), columns;
  int64_t count = 1;
  while (rows.size() > 1 && count < kElements) {
    count *= nest.sizes[rows.back()];
    columns.insert(columns.begin(), rows.pop_back_val());
  }
  if (!columns.empty())
    groups = {rows, columns};
}

void BlockNestEmitter::findPartials() {
  partials.clear();
  for (auto [index, info] : llvm::enumerate(infos))
    if (info.isReduction && reducesRows(nest.members[index].op->getResult(0)))
      partials.push_back({static_cast<unsigned>(index), {}, {}});
}

/// Where the present team adds up.
Value BlockNestEmitter::getPartial(OpResult result) {
  return partialMemory.lookup(result);
}

void BlockNestEmitter::startPartials() {
  partialMemory.clear();
  bool isFilled = false;
  for (Partial &partial : partials) {
    Operation *op = nest.members[partial.member].op;
    for (OpResult result : op->getResults()) {
      auto type = cast<RankedTensorType>(result.getType());
      Value memory = kernel.getMemory(result);
      if (numTeams > 1) {
        int64_t bytes = getStoredBytes(type);
        if (!recording)
          partial.offsets.push_back(kernel.reserveScratch(numTeams * bytes));
        memory = kernel.getScratch(recording ? 0 : partial.offsets.back());
        Value offset = arith::MulIOp::create(builder, loc, getTeam(),
                                             kernel.constant(bytes));
        memory = LLVM::GEPOp::create(builder, loc, memory.getType(),
                                     builder.getI8Type(), memory,
                                     ValueRange{offset});
      }
      partialMemory[result] = memory;
      if (fitsRegisters(partial))
        continue;
      isFilled = true;
      OpBuilder::InsertionGuard guard(builder);
      auto loop = scf::ForOp::create(builder, loc, getMember(),
                                     kernel.constant(type.getNumElements()),
                                     kernel.constant(numThreads));
      builder.setInsertionPoint(loop.getBody()->getTerminator());
      kernel.store(
          memory, loop.getInductionVar(),
          getStart(infos[partial.member].generic, result.getResultNumber()));
    }
  }
  if (isFilled)
    kernel.emitBarrier();
}

/// Whether the elements are those of columns, and each is one thread's.
bool BlockNestEmitter::fitsRegisters(const Partial &partial) const {
  Factors layout = getLayout(nest.members[partial.member].op->getResult(0));
  Factors own = getColumns(layout);
  return !own.empty() && own.size() == layout.size() &&
         own.size() == infos[partial.member].columns.size() &&
         fitsRegisters(nest.getSize(own));
}

/// The code generator makes registers of what lies on the stack.
void BlockNestEmitter::beginRegisters() {
  for (Partial &partial : partials) {
    partial.registers.clear();
    if (!fitsRegisters(partial))
      continue;
    const MemberInfo &info = infos[partial.member];
    int64_t width = getMaxWidth(getLoops(info.columns));
    int64_t chunks = nest.getSize(info.columns) / width;
    int64_t count = llvm::divideCeil(chunks, numThreads) * width;
    for (OpResult result : nest.members[partial.member].op->getResults()) {
      Value start = getStart(info.generic, result.getResultNumber());
      auto &own = partial.registers.emplace_back();
      for (int64_t i = 0; i < count; ++i) {
        own.push_back(kernel.allocateRegister(start.getType()));
        kernel.store(own.back(), kernel.constant(0), start);
      }
    }
  }
}

/// Stores what the threads have as the team's.
void BlockNestEmitter::endRegisters() {
  for (Partial &partial : partials) {
    if (partial.registers.empty())
      continue;
    Operation *op = nest.members[partial.member].op;
    size_t element = 0;
    auto storeNext = [&](ValueRange) -> SmallVector<Value> {
      OpBuilder::InsertionGuard guard(builder);
      if (isThere)
        kernel.beginIf(isThere);
      for (OpResult result : op->getResults()) {
        auto type = cast<RankedTensorType>(result.getType());
        Indices indices = getIndices(nest.lookup(result).dims);
        Value place = emitIndex(linearize(indices, type.getShape()));
        Value sum =
            kernel.load(partial.registers[result.getResultNumber()][element],
                        kernel.constant(0), type.getElementType());
        kernel.store(getPartial(result), place, sum);
      }
      ++element;
      return {};
    };
    emitThreadLoop(getLoops(infos[partial.member].columns), {}, storeNext);
  }
}

void BlockNestEmitter::addToPartial(unsigned member, ValueRange totals) {
  OpBuilder::InsertionGuard guard(builder);
  kernel.beginIf(isFirstThread());
  Operation *op = nest.members[member].op;
  SmallVector<Value> places, sofar;
  for (OpResult result : op->getResults()) {
    auto type = cast<RankedTensorType>(result.getType());
    Indices indices = getIndices(nest.lookup(result).dims);
    places.push_back(emitIndex(linearize(indices, type.getShape())));
    sofar.push_back(
        kernel.load(getPartial(result), places.back(), type.getElementType()));
  }
  SmallVector<Value> sums = combine(infos[member].generic, sofar, totals);
  for (auto [result, place, sum] :
       llvm::zip_equal(op->getResults(), places, sums))
    kernel.store(getPartial(result), place, sum);
}

/// Each warp of a block has 32 neighbours of the result, and of the teams those
/// that are its turn; what the warps have is added up in their order. So many
/// sums are under way at a time.
void BlockNestEmitter::emitCombination() {
  int64_t threads = kernel.gpu.blockThreads;
  for (const Partial &partial : partials) {
    OpBuilder::InsertionGuard guard(builder);
    linalg::GenericOp op = infos[partial.member].generic;
    ResultRange results = nest.members[partial.member].op->getResults();
    int64_t size =
        cast<RankedTensorType>(results[0].getType()).getNumElements();
    int64_t pieces = llvm::divideCeil(size, kWarp);
    kernel.useBlocks(std::min(pieces, kernel.gpu.maxBlocks), threads);
    Value lane = arith::RemUIOp::create(builder, loc, kernel.getThread(),
                                        kernel.constant(kWarp));
    Value warp = arith::DivUIOp::create(builder, loc, kernel.getThread(),
                                        kernel.constant(kWarp));
    auto loop =
        scf::ForOp::create(builder, loc, kernel.getBlock(),
                           kernel.constant(pieces), kernel.getNumBlocks());
    builder.setInsertionPoint(loop.getBody()->getTerminator());
    Value first = arith::MulIOp::create(builder, loc, loop.getInductionVar(),
                                        kernel.constant(kWarp));
    Value at = arith::AddIOp::create(builder, loc, first, lane);
    Value isElement = arith::CmpIOp::create(
        builder, loc, arith::CmpIPredicate::slt, at, kernel.constant(size));
    at = arith::SelectOp::create(builder, loc, isElement, at,
                                 kernel.constant(size - 1));
    SmallVector<Value> ofWarp = combineTeams(partial, at, warp);
    if (&partial != &partials.front() || pieces > kernel.gpu.maxBlocks)
      kernel.emitBarrier(); // others may still read what was there before
    SmallVector<Value> sums = combineWarps(op, ofWarp, lane, warp);
    Value isFirst = arith::CmpIOp::create(
        builder, loc, arith::CmpIPredicate::eq, warp, kernel.constant(0));
    kernel.beginIf(arith::AndIOp::create(builder, loc, isElement, isFirst));
    for (auto [result, sum] : llvm::zip_equal(results, sums))
      kernel.store(kernel.getMemory(result), at, sum);
  }
}

/// Of the element `at`, what the teams have whose turn is the warp's.
SmallVector<Value> BlockNestEmitter::combineTeams(const Partial &partial,
                                                  Value at, Value warp) {
  linalg::GenericOp op = infos[partial.member].generic;
  ResultRange results = nest.members[partial.member].op->getResults();
  int64_t numWarps = kernel.gpu.blockThreads / kWarp;
  int64_t turns = llvm::divideCeil(numTeams, numWarps);
  int64_t together = std::min(turns, kLoadsUnderWay);
  SmallVector<Value> starts;
  for (OpResult result : results)
    starts.push_back(getStart(op, result.getResultNumber()));
  auto loop =
      scf::ForOp::create(builder, loc, kernel.constant(0),
                         kernel.constant(llvm::divideCeil(turns, together)),
                         kernel.constant(1), starts);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  Value begin = arith::MulIOp::create(builder, loc, loop.getInductionVar(),
                                      kernel.constant(together * numWarps));
  begin = arith::AddIOp::create(builder, loc, begin, warp);
  SmallVector<std::pair<Value, SmallVector<Value>>> loaded;
  for (int64_t turn = 0; turn < together; ++turn) {
    Value team = arith::AddIOp::create(builder, loc, begin,
                                       kernel.constant(turn * numWarps));
    Value isTeam =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, team,
                              kernel.constant(numTeams));
    team = arith::SelectOp::create(builder, loc, isTeam, team,
                                   kernel.constant(numTeams - 1));
    auto &[condition, values] =
        loaded.emplace_back(isTeam, SmallVector<Value>());
    for (auto [result, offset] : llvm::zip_equal(results, partial.offsets)) {
      auto type = cast<RankedTensorType>(result.getType());
      Value place = arith::MulIOp::create(
          builder, loc, team, kernel.constant(type.getNumElements()));
      place = arith::AddIOp::create(builder, loc, place, at);
      values.push_back(
          kernel.load(kernel.getScratch(offset), place, type.getElementType()));
    }
  }
  SmallVector<Value> sofar(loop.getRegionIterArgs());
  for (auto &[isTeam, values] : loaded)
    for (auto [sum, before] :
         llvm::zip_equal(combine(op, sofar, values), sofar))
      before = arith::SelectOp::create(builder, loc, isTeam, sum, before);
  scf::YieldOp::create(builder, loc, sofar);
  return SmallVector<Value>(loop.getResults());
}

/// What the warps have of an element each, which the first one's threads get.
SmallVector<Value> BlockNestEmitter::combineWarps(linalg::GenericOp op,
                                                  ValueRange values, Value lane,
                                                  Value warp) {
  int64_t threads = kernel.gpu.blockThreads;
  Value shared = kernel.getShared(kSharedSlot * threads * values.size());
  auto slot = [&](size_t number, Value ofWarp) -> Value {
    Value index =
        arith::MulIOp::create(builder, loc, ofWarp, kernel.constant(kWarp));
    index = arith::AddIOp::create(builder, loc, index, lane);
    index = arith::AddIOp::create(builder, loc, index,
                                  kernel.constant(number * threads));
    return LLVM::GEPOp::create(builder, loc, shared.getType(),
                               builder.getI64Type(), shared, ValueRange{index});
  };
  for (auto [number, value] : llvm::enumerate(values))
    kernel.store(slot(number, warp), kernel.constant(0), value);
  kernel.emitBarrier();
  SmallVector<Value> totals;
  for (int64_t other = 0; other < threads / kWarp; ++other) {
    SmallVector<Value> loaded;
    for (auto [number, value] : llvm::enumerate(values))
      loaded.push_back(kernel.load(slot(number, kernel.constant(other)),
                                   kernel.constant(0), value.getType()));
    totals = totals.empty() ? loaded : combine(op, totals, loaded);
  }
  return totals;
}
