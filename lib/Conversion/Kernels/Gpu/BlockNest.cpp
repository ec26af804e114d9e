//===- BlockNest.cpp - a nest of loops on a GPU ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Gpu/BlockNest.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;

void tandem::emitByBlocks(GpuKernelEmitter &kernel, const Nest &whole) {
  Nest nest = splitWhole(whole);
  BlockNestEmitter emitter(kernel, nest);
  kernel.beginPart();
  emitter.emit();
  kernel.endPart();
  if (!emitter.hasPartials())
    return;
  kernel.beginPart();
  emitter.emitCombination();
  kernel.endPart();
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

void BlockNestEmitter::chooseColumns() {
  isElementwise = llvm::none_of(nest.members, [&](const auto &member) {
    return hasReduction(member.op) && !addsUpInThreads(member.op, kernel.gpu);
  });
  if (isElementwise)
    return std::fill(column.begin(), column.end(), true);
  divideWhole();
  NestEmitter::chooseColumns();
}

/// A team per row, with as many threads as there are columns, for which there
/// is a limit. Teams share a block where that has all of its teams come to the
/// same barriers, and where they leave no sums, for which more blocks are
/// better than larger ones.
void BlockNestEmitter::chooseTeams() {
  const Gpu &limits = kernel.gpu;
  int64_t rows = 1, columns = 1, bytes = 1;
  for (const Factors &group : groups)
    if (!isColumn(group.front()))
      rows *= nest.getSize(group);
  for (const MemberInfo &info : infos)
    columns = std::max(columns, nest.getSize(info.columns));
  int64_t width = canBeWide() ? getMaxWidth() : 1;
  // Threads of a team wait for each other where they only add up.
  bool storesElements = false;
  for (auto [index, info] : llvm::enumerate(infos))
    storesElements |=
        !info.isRow && !info.isReduction &&
        kernel.plan.inMemory.contains(nest.members[index].op->getResult(0));
  numThreads =
      std::clamp<int64_t>(llvm::PowerOf2Ceil(llvm::divideCeil(columns, width)),
                          1, (storesElements ? 2 : 1) * limits.blockThreads);
  numTeams = std::max<int64_t>(rows, 1);
  teamsPerBlock = 1;
  if (partials.empty()) {
    while (numTeams % (2 * teamsPerBlock) == 0 &&
           2 * teamsPerBlock * numThreads <= limits.blockThreads)
      teamsPerBlock *= 2;
    numThreads = std::max(numThreads, kWarp / std::min(teamsPerBlock, kWarp));
    return;
  }
  numThreads = std::max(numThreads, kWarp);
  for (Partial &partial : partials)
    for (Value result : nest.members[partial.member].op->getResults())
      bytes += getStoredBytes(cast<RankedTensorType>(result.getType()));
  numTeams = std::min(numTeams, limits.maxPartialBlocks);
  numTeams = std::clamp<int64_t>(kMaxPartialBytes / bytes, 1, numTeams);
}

Value BlockNestEmitter::getMember() {
  Value thread = kernel.getThread();
  if (teamsPerBlock == 1)
    return thread;
  return arith::RemUIOp::create(builder, loc, thread,
                                kernel.constant(numThreads));
}

Value BlockNestEmitter::getTeam() {
  Value block = kernel.getBlock();
  if (teamsPerBlock == 1)
    return block;
  Value first = arith::MulIOp::create(builder, loc, block,
                                      kernel.constant(teamsPerBlock));
  Value own = arith::DivUIOp::create(builder, loc, kernel.getThread(),
                                     kernel.constant(numThreads));
  return arith::AddIOp::create(builder, loc, first, own);
}

/// Team i has the rows i, i + number of teams, ...
void BlockNestEmitter::beginRows() {
  SmallVector<int> rows;
  SmallVector<int64_t> counts;
  int64_t total = 1;
  for (auto [index, group] : llvm::enumerate(groups))
    if (!isColumn(group.front())) {
      rows.push_back(index);
      counts.push_back(nest.getSize(group));
      total *= counts.back();
    }
  Value step = arith::MulIOp::create(builder, loc, kernel.getNumBlocks(),
                                     kernel.constant(teamsPerBlock));
  auto loop =
      scf::ForOp::create(builder, loc, getTeam(), kernel.constant(total), step);
  builder.setInsertionPoint(loop.getBody()->getTerminator());
  for (auto [row, index] : llvm::zip_equal(
           rows, kernel.delinearize(loop.getInductionVar(), counts)))
    inductions[row] = index;
}

void BlockNestEmitter::emitLoops() {
  OpBuilder::InsertionGuard guard(builder);
  forget();
  findPartials();
  if (!isElementwise) {
    chooseTeams();
    kernel.useBlocks(recording ? 1 : numTeams / teamsPerBlock,
                     numThreads * teamsPerBlock);
    startPartials();
  } else {
    kernel.useThreads(1);
  }
  chooseTiles();
  if (!tiles.empty())
    return emitTiles();
  if (recording || !canBeWide())
    return emitRows();
  auto branch = cast<scf::IfOp>(kernel.branchByAlignment());
  builder.setInsertionPoint(branch.thenBlock()->getTerminator());
  isWide = true;
  emitRows();
  builder.setInsertionPoint(branch.elseBlock()->getTerminator());
  isWide = false;
  emitRows();
}

void BlockNestEmitter::emitRows() {
  forget();
  registers.clear();
  if (isElementwise)
    return emitRow();
  beginRegisters();
  {
    OpBuilder::InsertionGuard guard(builder);
    beginRows();
    emitRow();
  }
  endRegisters();
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

Value BlockNestEmitter::isFirstThread() {
  Value thread = isElementwise ? kernel.getGlobalThread() : getMember();
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, thread,
                               kernel.constant(0));
}

void BlockNestEmitter::storeRowValue(Value value, Value scalar) {
  OpBuilder::InsertionGuard guard(builder);
  kernel.beginIf(isFirstThread());
  storeValue(value, scalar);
}

/// Whether a level leaves more than numbers of the row, which all threads have,
/// and sums that each thread keeps.
bool BlockNestEmitter::storesColumns(int level) const {
  for (auto [index, info] : llvm::enumerate(infos)) {
    if (info.isRow || info.level != level)
      continue;
    Value result = nest.members[index].op->getResult(0);
    bool isKept = llvm::any_of(partials, [&](const Partial &partial) {
      return partial.member == index && !partial.registers.empty();
    });
    if (info.isReduction ? !isKept && !getColumns(getLayout(result)).empty()
                         : kernel.plan.inMemory.contains(result))
      return true;
  }
  return false;
}

/// What a level has stored the next ones may read, by other threads. Where it
/// has not, all that it reads is in sums that no thread has before all threads
/// have read.
void BlockNestEmitter::endLevel(int level) {
  if (!isElementwise && level < maxLevel && storesColumns(level))
    kernel.emitBarrier();
}

SmallVector<int> BlockNestEmitter::getLoops(const Factors &columns) const {
  SmallVector<int> loops;
  for (auto [index, group] : llvm::enumerate(groups))
    if (isColumn(group.front()) && llvm::is_contained(columns, group.front()))
      loops.push_back(index);
  return loops;
}

void BlockNestEmitter::emitPhase(int level, const Factors &columns) {
  auto [scalars, arrays] = splitReductions(level, columns);
  SmallVector<Value> roots = getRoots(level, columns);
  if (!scalars.empty() || !roots.empty())
    emitElements(scalars, roots, columns);
  for (unsigned member : arrays)
    emitArray(member, columns);
}

/// Stores `roots`, and what is reduced so far with this element.
SmallVector<Value> BlockNestEmitter::emitElement(ArrayRef<unsigned> scalars,
                                                 ArrayRef<Value> roots,
                                                 ValueRange sofar) {
  for (Value root : roots) {
    Value scalar = evaluatePlaced(root);
    if (isThere)
      pending.push_back({root, scalar, inductions});
    else
      storeValue(root, scalar);
  }
  SmallVector<Value> next = emitReductions(scalars, sofar);
  if (isThere)
    for (auto [value, before] : llvm::zip_equal(next, sofar))
      value = arith::SelectOp::create(builder, loc, isThere, value, before);
  return next;
}

/// Stores `roots`, and reduces over all columns.
void BlockNestEmitter::emitElements(ArrayRef<unsigned> scalars,
                                    ArrayRef<Value> roots,
                                    const Factors &columns) {
  SmallVector<Value> inits;
  for (unsigned member : scalars)
    for (OpResult result : nest.members[member].op->getResults())
      inits.push_back(
          getStart(infos[member].generic, result.getResultNumber()));
  SmallVector<int> loops = getLoops(columns);
  auto element = [&](ValueRange sofar) {
    return emitElement(scalars, roots, sofar);
  };
  SmallVector<Value> finals;
  if (!loops.empty()) {
    finals = emitThreadLoop(loops, inits, element);
  } else { // each thread has it all
    scopes.emplace_back();
    finals = element(inits);
    scopes.pop_back();
  }
  ValueRange left = finals;
  for (unsigned member : scalars) {
    Operation *op = nest.members[member].op;
    SmallVector<Value> totals(left.take_front(op->getNumResults()));
    left = left.drop_front(op->getNumResults());
    if (!loops.empty())
      totals = reduceBlock(infos[member].generic, totals);
    if (reducesRows(op->getResult(0))) {
      addToPartial(member, totals);
      continue;
    }
    for (auto [result, total] : llvm::zip_equal(op->getResults(), totals)) {
      rowValues[result] = total;
      if (kernel.plan.inMemory.contains(result))
        storeRowValue(result, total);
    }
  }
}

/// A thread for each element of the result in this row, which goes over the
/// columns that are reduced.
void BlockNestEmitter::emitArray(unsigned member, const Factors &columns) {
  Operation *op = nest.members[member].op;
  Factors own = getColumns(getLayout(op->getResult(0))), reduced;
  for (int factor : columns)
    if (!llvm::is_contained(own, factor))
      reduced.push_back(factor);
  auto partial = llvm::find_if(
      partials, [&](const Partial &each) { return each.member == member; });
  bool isPartial = partial != partials.end();
  bool isKept = isPartial && !partial->registers.empty();
  size_t element = 0;
  auto placeOf = [&](OpResult result) -> std::pair<Value, Value> {
    if (isKept)
      return {partial->registers[result.getResultNumber()][element],
              kernel.constant(0)};
    auto type = cast<RankedTensorType>(result.getType());
    Indices indices = getIndices(nest.lookup(result).dims);
    return {isPartial ? getPartial(result) : kernel.getMemory(result),
            emitIndex(linearize(indices, type.getShape()))};
  };
  emitThreadLoop(getLoops(own), {}, [&](ValueRange) -> SmallVector<Value> {
    SmallVector<std::pair<Value, Value>> places;
    SmallVector<Value> starts;
    for (OpResult result : op->getResults()) {
      auto type = cast<RankedTensorType>(result.getType());
      places.push_back(placeOf(result));
      auto [memory, place] = places.back();
      starts.push_back(
          isPartial
              ? kernel.load(memory, place, type.getElementType())
              : getStart(infos[member].generic, result.getResultNumber()));
    }
    ++element;
    SmallVector<Value> sums =
        emitColumnLoops(getLoops(reduced), starts, [&](ValueRange sofar) {
          return emitReductionStep(member, sofar);
        });
    OpBuilder::InsertionGuard guard(builder);
    if (isThere && !isKept)
      kernel.beginIf(isThere);
    for (auto [at, sum] : llvm::zip_equal(places, sums))
      kernel.store(at.first, at.second, sum);
    return {};
  });
}
