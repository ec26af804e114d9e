//===- BlockNest.cpp - a nest of loops on a GPU ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BlockNest.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;

/// Bytes of the scratch that sums of blocks may take.
constexpr int64_t kMaxPartialBytes = 64 << 20;
/// Of a value in shared memory, in bytes.
constexpr int64_t kSharedSlot = 8;
constexpr int64_t kWarp = 32;
/// Of the widest access, in bytes.
constexpr int64_t kAccessBytes = 16;
/// Elements of an access at most: of bytes there could be 16.
constexpr int64_t kMaxWidth = 8;
/// Elements of a row that a thread has in registers, and what their operators
/// come to together.
constexpr int64_t kMaxRegisters = 16, kMaxUnrolled = 256;

void tandem::emitByBlocks(KernelEmitter &kernel, const Nest &nest) {
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
  isElementwise = llvm::none_of(
      nest.members, [](const auto &member) { return hasReduction(member.op); });
  if (isElementwise)
    std::fill(column.begin(), column.end(), true);
  else
    NestEmitter::chooseColumns();
}

void BlockNestEmitter::findPartials() {
  partials.clear();
  for (auto [index, info] : llvm::enumerate(infos))
    if (info.isReduction && reducesRows(nest.members[index].op->getResult(0)))
      partials.push_back({static_cast<unsigned>(index), {}});
}

static int64_t getBytes(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getNumElements() * getStoredBytes(type.getElementType());
}

/// A block per row, and as many threads as there are columns, for which there
/// is a limit.
void BlockNestEmitter::chooseBlocks() {
  const Gpu &limits = *kernel.gpu;
  int64_t rows = 1, columns = 1, bytes = 1;
  for (const Factors &group : groups)
    if (!isColumn(group.front()))
      rows *= nest.getSize(group);
  for (const MemberInfo &info : infos)
    columns = std::max(columns, nest.getSize(info.columns));
  int64_t width = canBeWide() ? getMaxWidth() : 1;
  numThreads =
      std::clamp<int64_t>(llvm::PowerOf2Ceil(llvm::divideCeil(columns, width)),
                          kWarp, limits.blockThreads);
  numBlocks = std::max<int64_t>(rows, 1);
  if (partials.empty())
    return;
  for (Partial &partial : partials)
    for (Value result : nest.members[partial.member].op->getResults())
      bytes += getBytes(result);
  numBlocks = std::min(numBlocks, limits.maxPartialBlocks);
  numBlocks = std::clamp<int64_t>(kMaxPartialBytes / bytes, 1, numBlocks);
}

/// Where the present block adds up.
Value BlockNestEmitter::getPartial(OpResult result) {
  return partialMemory.lookup(result);
}

void BlockNestEmitter::startPartials() {
  partialMemory.clear();
  for (Partial &partial : partials) {
    Operation *op = nest.members[partial.member].op;
    for (OpResult result : op->getResults()) {
      auto type = cast<RankedTensorType>(result.getType());
      Value memory = kernel.getMemory(result);
      if (numBlocks > 1) {
        int64_t bytes = getBytes(result);
        if (!recording)
          partial.offsets.push_back(kernel.reserveScratch(numBlocks * bytes));
        memory = kernel.getScratch(recording ? 0 : partial.offsets.back());
        Value offset = arith::MulIOp::create(builder, loc, kernel.getBlock(),
                                             kernel.constant(bytes));
        memory = LLVM::GEPOp::create(builder, loc, memory.getType(),
                                     builder.getI8Type(), memory,
                                     ValueRange{offset});
      }
      partialMemory[result] = memory;
      OpBuilder::InsertionGuard guard(builder);
      auto loop = scf::ForOp::create(builder, loc, kernel.getThread(),
                                     kernel.constant(type.getNumElements()),
                                     kernel.constant(numThreads));
      builder.setInsertionPoint(loop.getBody()->getTerminator());
      kernel.store(
          memory, loop.getInductionVar(),
          getStart(infos[partial.member].generic, result.getResultNumber()));
    }
  }
  if (!partials.empty())
    kernel.emitBarrier();
}

/// Block i has the rows i, i + number of blocks, ...
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
  auto loop = scf::ForOp::create(builder, loc, kernel.getBlock(),
                                 kernel.constant(total), kernel.getNumBlocks());
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
    chooseBlocks();
    kernel.useBlocks(recording ? 1 : numBlocks, numThreads);
    startPartials();
  } else {
    kernel.useThreads(1);
  }
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
  if (!isElementwise)
    beginRows();
  emitRow();
}

//===----------------------------------------------------------------------===//
// Neighbours
//===----------------------------------------------------------------------===//

/// By the narrowest elements, but for single ones and booleans.
int64_t BlockNestEmitter::getMaxWidth() const {
  int64_t bytes = kSharedSlot;
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
  int64_t own = total / numThreads;
  return !isElementwise && !recording && total % numThreads == 0 &&
         own <= kMaxRegisters &&
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

/// Where the row is a block's: the threads have the chunks in turn.
SmallVector<Value> BlockNestEmitter::emitInRegisters(ArrayRef<int> loops,
                                                     int64_t total,
                                                     ValueRange inits,
                                                     Element inner) {
  int64_t own = total / numThreads, width = getMaxWidth(loops);
  while (own % width != 0)
    width /= 2;
  auto &known = registers[loops.vec()];
  known.resize(own);
  size_t element = 0;
  auto remembering = [&](ValueRange sofar) {
    scopes.push_back(std::move(known[element]));
    SmallVector<Value> results = inner(sofar);
    known[element++] = std::move(scopes.back());
    scopes.pop_back();
    return results;
  };
  SmallVector<Value> sofar(inits);
  for (int64_t chunk = 0; chunk < own / width; ++chunk) {
    Value at = arith::AddIOp::create(builder, loc, kernel.getThread(),
                                     kernel.constant(chunk * numThreads));
    sofar = emitNeighbours(loops, width, at, sofar, remembering);
  }
  return sofar;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

Value BlockNestEmitter::isFirstThread() {
  Value thread = isElementwise ? kernel.getGlobalThread() : kernel.getThread();
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, thread,
                               kernel.constant(0));
}

void BlockNestEmitter::storeRowValue(Value value, Value scalar) {
  OpBuilder::InsertionGuard guard(builder);
  kernel.beginIf(isFirstThread());
  storeValue(value, scalar);
}

/// What a level has stored the next ones may read, by other threads.
void BlockNestEmitter::endLevel(int level) {
  if (!isElementwise && level < maxLevel)
    kernel.emitBarrier();
}

SmallVector<int> BlockNestEmitter::getLoops(const Factors &columns) const {
  SmallVector<int> loops;
  for (auto [index, group] : llvm::enumerate(groups))
    if (isColumn(group.front()) && llvm::is_contained(columns, group.front()))
      loops.push_back(index);
  return loops;
}

SmallVector<Value> BlockNestEmitter::emitThreadLoop(ArrayRef<int> loops,
                                                    ValueRange inits,
                                                    Element inner) {
  int64_t total = 1;
  for (int loop : loops)
    total *= nest.getSize(groups[loop]);
  if (fitsRegisters(total))
    return emitInRegisters(loops, total, inits, inner);
  int64_t width = isElementwise ? getMaxWidth(loops) : 1;
  total /= width;
  Value start = kernel.getThread(), step = kernel.constant(numThreads);
  if (isElementwise) {
    // Where there are two versions, the grid is that of the wide one.
    kernel.useThreads(recording || isWide != canBeWide() ? 1 : total);
    start = kernel.getGlobalThread();
    Value threads = kernel.constant(kernel.gpu->blockThreads);
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

void BlockNestEmitter::emitPhase(int level, const Factors &columns) {
  auto [scalars, arrays] = splitReductions(level, columns);
  SmallVector<Value> roots = getRoots(level, columns);
  if (!scalars.empty() || !roots.empty())
    emitElements(scalars, roots, columns);
  for (unsigned member : arrays)
    emitArray(member, columns);
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
    for (Value root : roots)
      storeValue(root, evaluatePlaced(root));
    return emitReductions(scalars, sofar);
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

/// A thread for each element of the result in this row, which goes over the
/// columns that are reduced.
void BlockNestEmitter::emitArray(unsigned member, const Factors &columns) {
  Operation *op = nest.members[member].op;
  Factors own = getColumns(getLayout(op->getResult(0))), reduced;
  for (int factor : columns)
    if (!llvm::is_contained(own, factor))
      reduced.push_back(factor);
  bool isPartial = reducesRows(op->getResult(0));
  emitThreadLoop(getLoops(own), {}, [&](ValueRange) -> SmallVector<Value> {
    SmallVector<Value> places, starts;
    for (OpResult result : op->getResults()) {
      auto type = cast<RankedTensorType>(result.getType());
      Indices indices = getIndices(nest.lookup(result).dims);
      places.push_back(emitIndex(linearize(indices, type.getShape())));
      starts.push_back(
          isPartial
              ? kernel.load(getPartial(result), places.back(),
                            type.getElementType())
              : getStart(infos[member].generic, result.getResultNumber()));
    }
    SmallVector<Value> sums =
        emitColumnLoops(getLoops(reduced), starts, [&](ValueRange sofar) {
          return emitReductionStep(member, sofar);
        });
    for (auto [result, place, sum] :
         llvm::zip_equal(op->getResults(), places, sums))
      kernel.store(isPartial ? getPartial(result) : kernel.getMemory(result),
                   place, sum);
    return {};
  });
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// What two ranges of elements reduce to together: of a sum, a product or an
/// extreme the operator itself, of a largest element and its place the former,
/// of equal ones that which comes first.
SmallVector<Value> BlockNestEmitter::combine(linalg::GenericOp op, ValueRange a,
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

/// The value of the thread whose number differs in the bit `distance`.
Value BlockNestEmitter::shuffle(Value value, int64_t distance) {
  Type type = value.getType(), i32 = builder.getI32Type();
  unsigned width = type.getIntOrFloatBitWidth();
  Type bits = builder.getIntegerType(width);
  auto number = [&](int64_t n) -> Value {
    return arith::ConstantIntOp::create(builder, loc, i32, n);
  };
  auto exchange = [&](Value word) -> Value {
    return NVVM::ShflOp::create(builder, loc, i32, number(-1), word,
                                number(distance), number(kWarp - 1),
                                NVVM::ShflKind::bfly, UnitAttr());
  };
  if (type != bits)
    value = arith::BitcastOp::create(builder, loc, bits, value);
  if (width < 32) {
    value = exchange(arith::ExtUIOp::create(builder, loc, i32, value));
    value = arith::TruncIOp::create(builder, loc, bits, value);
  } else if (width == 32) {
    value = exchange(value);
  } else {
    Value half = arith::ConstantIntOp::create(builder, loc, bits, width / 2);
    Value high = arith::ShRUIOp::create(builder, loc, value, half);
    Value low = exchange(arith::TruncIOp::create(builder, loc, i32, value));
    high = exchange(arith::TruncIOp::create(builder, loc, i32, high));
    high = arith::ExtUIOp::create(builder, loc, bits, high);
    low = arith::ExtUIOp::create(builder, loc, bits, low);
    high = arith::ShLIOp::create(builder, loc, high, half);
    value = arith::OrIOp::create(builder, loc, high, low);
  }
  if (type != bits)
    value = arith::BitcastOp::create(builder, loc, type, value);
  return value;
}

/// All threads of a warp get the same, as it does not matter which of two is
/// the first.
SmallVector<Value> BlockNestEmitter::reduceWarp(linalg::GenericOp op,
                                                ValueRange values) {
  SmallVector<Value> sofar(values);
  for (int64_t distance = kWarp / 2; distance > 0; distance /= 2) {
    SmallVector<Value> others;
    for (Value value : sofar)
      others.push_back(shuffle(value, distance));
    sofar = combine(op, sofar, others);
  }
  return sofar;
}

/// The threads' values as one, which all of them get: those of warps in shared
/// memory, in their order.
SmallVector<Value> BlockNestEmitter::reduceBlock(linalg::GenericOp op,
                                                 ValueRange values) {
  SmallVector<Value> sofar = reduceWarp(op, values);
  int64_t numWarps = numThreads / kWarp;
  if (numWarps == 1)
    return sofar;
  Value shared = kernel.getShared(kSharedSlot * numWarps * values.size());
  auto slot = [&](size_t number, Value warp) -> Value {
    Value first = kernel.constant(number * numWarps);
    Value index = arith::AddIOp::create(builder, loc, warp, first);
    return LLVM::GEPOp::create(builder, loc, shared.getType(),
                               builder.getI64Type(), shared, ValueRange{index});
  };
  {
    OpBuilder::InsertionGuard guard(builder);
    Value thread = kernel.getThread(), size = kernel.constant(kWarp);
    Value lane = arith::RemUIOp::create(builder, loc, thread, size);
    Value warp = arith::DivUIOp::create(builder, loc, thread, size);
    kernel.beginIf(arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                         lane, kernel.constant(0)));
    for (auto [number, value] : llvm::enumerate(sofar))
      kernel.store(slot(number, warp), kernel.constant(0), value);
  }
  kernel.emitBarrier();
  auto load = [&](int64_t warp) {
    SmallVector<Value> loaded;
    for (auto [number, value] : llvm::enumerate(values))
      loaded.push_back(kernel.load(slot(number, kernel.constant(warp)),
                                   kernel.constant(0), value.getType()));
    return loaded;
  };
  SmallVector<Value> totals = load(0);
  for (int64_t warp = 1; warp < numWarps; ++warp)
    totals = combine(op, totals, load(warp));
  kernel.emitBarrier(); // before the next one writes there
  return totals;
}

void BlockNestEmitter::emitCombination() {
  for (const Partial &partial : partials) {
    OpBuilder::InsertionGuard guard(builder);
    Operation *op = nest.members[partial.member].op;
    auto first = cast<RankedTensorType>(op->getResult(0).getType());
    Value at = kernel.beginThreads(first.getNumElements()).front();
    SmallVector<Value> starts;
    for (OpResult result : op->getResults())
      starts.push_back(
          getStart(infos[partial.member].generic, result.getResultNumber()));
    auto loop = scf::ForOp::create(builder, loc, kernel.constant(0),
                                   kernel.constant(numBlocks),
                                   kernel.constant(1), starts);
    {
      OpBuilder::InsertionGuard inside(builder);
      builder.setInsertionPointToStart(loop.getBody());
      Value base =
          arith::MulIOp::create(builder, loc, loop.getInductionVar(),
                                kernel.constant(first.getNumElements()));
      Value place = arith::AddIOp::create(builder, loc, base, at);
      SmallVector<Value> sums;
      for (auto [result, offset] :
           llvm::zip_equal(op->getResults(), partial.offsets))
        sums.push_back(kernel.load(
            kernel.getScratch(offset), place,
            cast<RankedTensorType>(result.getType()).getElementType()));
      SmallVector<Value> sofar(loop.getRegionIterArgs());
      scf::YieldOp::create(builder, loc,
                           combine(infos[partial.member].generic, sofar, sums));
    }
    for (auto [result, sum] :
         llvm::zip_equal(op->getResults(), loop.getResults()))
      kernel.store(kernel.getMemory(result), at, sum);
  }
}
