//===- NestEmitter.cpp - the loops of one nest ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Nest/NestEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tandem;

//===----------------------------------------------------------------------===//
// The nest
//===----------------------------------------------------------------------===//

/// The loops are emitted twice: first only to see at which indices memory is
/// read and written, then with merged loops.
void NestEmitter::analyze() {
  SmallVector<bool> forced(column);
  {
    OpBuilder::InsertionGuard guard(builder);
    recording = true;
    chooseColumns();
    analyzeMembers();
    findBuffered();
    auto scratch = scf::ExecuteRegionOp::create(builder, loc, TypeRange{});
    builder.createBlock(&scratch.getRegion());
    emitLoops();
    recording = false;
    scratch.erase();
  }
  column = forced;
  mergeFactors();
  chooseColumns();
  infos.clear();
  buffered.clear();
  buffers.clear();
  analyzeMembers();
  findBuffered();
}

void NestEmitter::emitNest(const LoopShare &chosen) {
  OpBuilder::InsertionGuard guard(builder);
  share = chosen;
  blockMemory.clear();
  if (share.block > 0)
    beginBlock();
  initializeAccumulators();
  emitLoops();
}

std::pair<Value, Value> NestEmitter::getBounds(int group) {
  if (recording || group != share.loop)
    return {kernel.constant(0), kernel.constant(nest.getSize(groups[group]))};
  return share.block > 0 ? blockBounds : kernel.getPartBounds();
}

void NestEmitter::initializeAccumulators() {
  for (auto &[value, info] : nest.made) {
    if (info.reduced.empty() || info.isRead)
      continue;
    if (!reducesRows(value) && getColumns(getLayout(value)).empty())
      continue;
    auto result = cast<OpResult>(value);
    auto generic = cast<linalg::GenericOp>(result.getOwner());
    int64_t count = cast<RankedTensorType>(value.getType()).getNumElements();
    Value start = getStart(generic, result.getResultNumber());
    if (share.loop >= 0 && !addsUpOver(info, share.loop))
      fillOwn(value, start);
    else
      kernel.fill(getSumMemory(value), count, start);
  }
}

void NestEmitter::forget() {
  scopes.assign(1, {});
  rowValues.clear();
  indexOf.clear();
  inductions.clear();
}

/// Those of the columns that are run over: buffers of a row live as long as the
/// kernel does.
void NestEmitter::allocateBuffers(
    llvm::function_ref<bool(const Factors &)> isRunOver) {
  for (auto &[value, info] : nest.made)
    if (buffered.contains(value)) {
      Factors columns = getColumns(getLayout(value));
      if (!isRunOver(columns))
        continue;
      Type type = cast<RankedTensorType>(value.getType()).getElementType();
      buffers[value] =
          kernel.allocate(recording ? 1 : nest.getSize(columns), type);
    }
}

void NestEmitter::emitLoops() {
  OpBuilder::InsertionGuard guard(builder);
  forget();
  allocateBuffers([&](const Factors &columns) {
    return !leavesNumbers() || runsOverShared(columns);
  });
  for (auto [index, group] : llvm::enumerate(groups))
    if (!isColumn(group.front()))
      inductions[index] = kernel.beginLoop(getBounds(index));
  emitRow();
}

std::set<NestEmitter::Factors> NestEmitter::getDomains(int level) const {
  std::set<Factors> domains;
  for (const MemberInfo &info : infos)
    if (info.level == level && !info.isRow)
      domains.insert(info.columns);
  return domains;
}

/// Of a block not the numbers that depend on all of them, nor what these read
/// of other loops than that of the blocks.
void NestEmitter::emitRow() {
  int last = leavesNumbers() ? 0 : maxLevel;
  for (currentLevel = 0; currentLevel <= last; ++currentLevel) {
    emitRowMembers(currentLevel);
    for (const Factors &columns : getDomains(currentLevel))
      if (!leavesNumbers() || runsOverShared(columns))
        emitPhase(currentLevel, columns);
    endLevel(currentLevel);
  }
}

//===----------------------------------------------------------------------===//
// Values of a row
//===----------------------------------------------------------------------===//

void NestEmitter::emitRowMembers(int level) {
  for (auto [index, info] : llvm::enumerate(infos)) {
    if (!info.isRow || info.level != level)
      continue;
    Value value = nest.members[index].op->getResult(0);
    Value scalar = evaluatePlaced(value);
    rowValues[value] = scalar;
    if (kernel.plan.inMemory.contains(value))
      storeRowValue(value, scalar);
  }
}

void NestEmitter::storeValue(Value value, Value scalar) {
  Indices indices = getIndices(nest.lookup(value).dims);
  auto type = cast<RankedTensorType>(value.getType());
  Value at = emitIndex(linearize(indices, type.getShape()));
  kernel.store(getSumMemory(value), at, scalar);
}

//===----------------------------------------------------------------------===//
// Phases
//===----------------------------------------------------------------------===//

SmallVector<unsigned> NestEmitter::getReductions(int level,
                                                 const Factors &columns) const {
  SmallVector<unsigned> found;
  for (auto [index, info] : llvm::enumerate(infos))
    if (info.isReduction && info.level == level && info.columns == columns)
      found.push_back(index);
  return found;
}

/// Values that are stored at this level, in memory or in a buffer.
SmallVector<Value> NestEmitter::getRoots(int level,
                                         const Factors &columns) const {
  SmallVector<Value> roots;
  for (auto [index, info] : llvm::enumerate(infos)) {
    if (info.isReduction || info.isRow || info.level != level ||
        info.columns != columns)
      continue;
    Value value = nest.members[index].op->getResult(0);
    if (kernel.plan.inMemory.contains(value) || buffered.contains(value))
      roots.push_back(value);
  }
  return roots;
}

Value NestEmitter::getStart(linalg::GenericOp op, unsigned result) {
  auto init = op.getDpsInits()[result].getDefiningOp<arith::ConstantOp>();
  auto dense = cast<DenseElementsAttr>(init.getValue());
  return arith::ConstantOp::create(
      builder, loc, cast<TypedAttr>(dense.getSplatValue<Attribute>()));
}

SmallVector<Value> NestEmitter::emitReductionStep(unsigned member,
                                                  ValueRange sofar) {
  linalg::GenericOp op = infos[member].generic;
  Indices loops = getIndices(nest.members[member].loops);
  SmallVector<Value> args = evaluateInputs(op, loops);
  llvm::append_range(args, sofar);
  return emitBody(op, args, loops);
}

/// The result has columns of its own: one accumulator each.
void NestEmitter::accumulateInMemory(unsigned member) {
  Operation *op = nest.members[member].op;
  SmallVector<Value> places, sofar;
  for (Value result : op->getResults()) {
    auto type = cast<RankedTensorType>(result.getType());
    Indices indices = getIndices(nest.lookup(result).dims);
    places.push_back(emitIndex(linearize(indices, type.getShape())));
    sofar.push_back(kernel.load(getSumMemory(result), places.back(),
                                type.getElementType()));
  }
  SmallVector<Value> next = emitReductionStep(member, sofar);
  for (auto [result, place, value] :
       llvm::zip_equal(op->getResults(), places, next))
    kernel.store(getSumMemory(result), place, value);
}

/// A block of Philox is four words: with four neighbours side by side, whose
/// blocks are seen to be one, it is computed once for them. Without vectors,
/// neighbours are other threads'.
int64_t NestEmitter::countNeighbours(int group) const {
  constexpr int64_t kWords = 4;
  bool draws = llvm::any_of(nest.members, [](const auto &member) {
    return member.op
        ->walk([](func::CallOp call) {
          return getOrdinalNumber(call) < 0 ? WalkResult::advance()
                                            : WalkResult::interrupt();
        })
        .wasInterrupted();
  });
  bool isWhole = nest.getSize(groups[group]) % kWords == 0;
  bool hasVectors = kernel.plan.device.kernels.vectorBits > 0;
  return draws && isWhole && hasVectors ? kWords : 1;
}

SmallVector<Value> NestEmitter::emitColumnLoops(
    ArrayRef<int> loops, ArrayRef<Value> inits,
    llvm::function_ref<SmallVector<Value>(ValueRange)> inner) {
  if (loops.empty()) {
    scopes.emplace_back();
    SmallVector<Value> results = inner(inits);
    scopes.pop_back();
    return results;
  }
  auto [first, end] = getBounds(loops.front());
  int64_t width = loops.size() == 1 ? countNeighbours(loops.front()) : 1;
  if (width > 1) {
    first = arith::DivUIOp::create(builder, loc, first, kernel.constant(width));
    end = arith::DivUIOp::create(builder, loc, end, kernel.constant(width));
  }
  auto loop =
      scf::ForOp::create(builder, loc, first, end, kernel.constant(1), inits);
  OpBuilder::InsertionGuard guard(builder);
  if (inits.empty())
    builder.setInsertionPoint(loop.getBody()->getTerminator());
  else
    builder.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> results(loop.getRegionIterArgs());
  Value own = loop.getInductionVar();
  if (width > 1)
    own = arith::MulIOp::create(builder, loc, own, kernel.constant(width));
  for (int64_t i = 0; i < width; ++i) {
    inductions[loops.front()] =
        i ? Value(arith::AddIOp::create(builder, loc, own, kernel.constant(i)))
          : own;
    results = emitColumnLoops(loops.drop_front(), results, inner);
  }
  if (!inits.empty())
    scf::YieldOp::create(builder, loc, results);
  return SmallVector<Value>(loop.getResults());
}

NestEmitter::Reductions
NestEmitter::splitReductions(int level, const Factors &columns) const {
  Reductions reductions;
  for (unsigned member : getReductions(level, columns)) {
    Value result = nest.members[member].op->getResult(0);
    bool hasColumns = !getColumns(getLayout(result)).empty();
    (hasColumns ? reductions.arrays : reductions.scalars).push_back(member);
  }
  return reductions;
}

SmallVector<Value> NestEmitter::emitReductions(ArrayRef<unsigned> scalars,
                                               ValueRange sofar) {
  SmallVector<Value> next;
  for (unsigned member : scalars) {
    unsigned count = nest.members[member].op->getNumResults();
    llvm::append_range(next,
                       emitReductionStep(member, sofar.take_front(count)));
    sofar = sofar.drop_front(count);
  }
  return next;
}

void NestEmitter::emitPhase(int level, const Factors &columns) {
  Reductions reductions = splitReductions(level, columns);
  const auto &scalars = reductions.scalars, &arrays = reductions.arrays;
  SmallVector<Value> roots = getRoots(level, columns);
  if (scalars.empty() && arrays.empty() && roots.empty())
    return;

  // What is summed over rows as well goes on from what is in memory.
  SmallVector<Value> inits, results;
  for (unsigned member : scalars)
    for (OpResult result : nest.members[member].op->getResults()) {
      results.push_back(result);
      if (!reducesRows(result)) {
        inits.push_back(
            getStart(infos[member].generic, result.getResultNumber()));
        continue;
      }
      auto type = cast<RankedTensorType>(result.getType());
      Indices indices = getIndices(nest.lookup(result).dims);
      Value at = emitIndex(linearize(indices, type.getShape()));
      inits.push_back(
          kernel.load(getSumMemory(result), at, type.getElementType()));
    }

  SmallVector<int> loops;
  for (auto [index, group] : llvm::enumerate(groups))
    if (isColumn(group.front()) && llvm::is_contained(columns, group.front()))
      loops.push_back(index);
  SmallVector<Value> finals =
      emitColumnLoops(loops, inits, [&](ValueRange sofar) {
        for (Value root : roots) {
          Value value = evaluatePlaced(root);
          if (!buffered.contains(root)) {
            storeValue(root, value);
            continue;
          }
          Value at = emitIndex(getRowOffset(getColumns(getLayout(root))));
          kernel.store(buffers[root], at, value);
        }
        for (unsigned member : arrays)
          accumulateInMemory(member);
        return emitReductions(scalars, sofar);
      });
  for (auto [result, value] : llvm::zip_equal(results, finals)) {
    rowValues[result] = value;
    if (kernel.plan.inMemory.contains(result) || blockMemory.contains(result))
      storeValue(result, value);
  }
}
