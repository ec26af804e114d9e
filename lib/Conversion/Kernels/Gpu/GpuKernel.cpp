//===- GpuKernel.cpp - the launches of one kernel -------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A step of the kernel is a launch, or two where blocks each have sums of their
// own that are added up in the order of blocks.
//
//===----------------------------------------------------------------------===//

#include "Gpu/GpuKernel.h"
#include "Gpu/BlockNest.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem_rt/kernel.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace tandem;

/// Of buffers in the scratch, in bytes: the widest access.
constexpr int64_t kScratchAlignment = 256;
/// Of the widest access, in bytes.
constexpr int64_t kAccessBytes = 16;
/// In NVIDIA's memory model.
constexpr unsigned kSharedSpace = 3;

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

void GpuKernelEmitter::useBlocks(int64_t blocks, int64_t threads) {
  blockThreads = threads;
  rt::Geometry &geometry = parts.back().geometry;
  geometry.block = {static_cast<uint32_t>(threads), 1, 1};
  geometry.grid[0] = std::max(
      geometry.grid[0], static_cast<uint32_t>(std::max<int64_t>(blocks, 1)));
}

void GpuKernelEmitter::useThreads(int64_t count) {
  int64_t threads = gpu.blockThreads;
  useBlocks(std::min<int64_t>(llvm::divideCeil(count, threads), gpu.maxBlocks),
            threads);
}

template <typename RegisterOp> static Value readRegister(GpuKernelEmitter &k) {
  OpBuilder &b = k.builder;
  Value value = RegisterOp::create(b, k.loc, b.getI32Type());
  return arith::ExtUIOp::create(b, k.loc, b.getI64Type(), value);
}

Value GpuKernelEmitter::getThread() {
  return readRegister<NVVM::ThreadIdXOp>(*this);
}
Value GpuKernelEmitter::getBlock() {
  return readRegister<NVVM::BlockIdXOp>(*this);
}
Value GpuKernelEmitter::getNumBlocks() {
  return readRegister<NVVM::GridDimXOp>(*this);
}

Value GpuKernelEmitter::getGlobalThread() {
  Value first =
      arith::MulIOp::create(builder, loc, getBlock(), constant(blockThreads));
  return arith::AddIOp::create(builder, loc, first, getThread());
}

Value GpuKernelEmitter::shuffle(Value value, int64_t distance) {
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

void GpuKernelEmitter::emitBarrier() { NVVM::Barrier0Op::create(builder, loc); }

/// Divisions are of 32 bits where these have all indices: of 64 they take
/// several times as long.
SmallVector<Value> GpuKernelEmitter::delinearize(Value linear,
                                                 ArrayRef<int64_t> counts) {
  if (counts.size() <= 1)
    return SmallVector<Value>(counts.size(), linear);
  bool isNarrow = std::accumulate(counts.begin(), counts.end(), int64_t(1),
                                  std::multiplies<>()) <= INT32_MAX;
  Type wide = builder.getI64Type();
  Type type = isNarrow ? builder.getI32Type() : wide;
  auto widen = [&](Value index) {
    return isNarrow ? arith::ExtUIOp::create(builder, loc, wide, index) : index;
  };
  if (isNarrow)
    linear = arith::TruncIOp::create(builder, loc, type, linear);
  SmallVector<Value> indices(counts.size());
  for (size_t dim = counts.size() - 1; dim > 0; --dim) {
    Value count = arith::ConstantIntOp::create(builder, loc, type, counts[dim]);
    indices[dim] = widen(arith::RemUIOp::create(builder, loc, linear, count));
    linear = arith::DivUIOp::create(builder, loc, linear, count);
  }
  indices[0] = widen(linear);
  return indices;
}

SmallVector<Value> GpuKernelEmitter::beginThreads(ArrayRef<int64_t> counts) {
  int64_t total = 1;
  for (int64_t count : counts)
    total *= count;
  useThreads(total);
  Value step = arith::MulIOp::create(builder, loc, getNumBlocks(),
                                     constant(blockThreads));
  auto loop = scf::ForOp::create(builder, loc, getGlobalThread(),
                                 constant(total), step);
  builder.setInsertionPoint(loop.getBody()->getTerminator());
  return delinearize(loop.getInductionVar(), counts);
}

/// The condition is put in once it is known which buffers the part has.
Operation *GpuKernelEmitter::branchByAlignment() {
  Value unknown =
      arith::ConstantIntOp::create(builder, loc, builder.getI1Type(), 0);
  alignmentBranch = scf::IfOp::create(builder, loc, TypeRange{}, unknown,
                                      /*withElseRegion=*/true);
  return alignmentBranch;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value GpuKernelEmitter::getShared(int64_t bytes) {
  rt::Geometry &geometry = parts.back().geometry;
  geometry.sharedBytes =
      std::max(geometry.sharedBytes, static_cast<uint32_t>(bytes));
  std::string name = symbol + "_shared";
  auto global = module.lookupSymbol<LLVM::GlobalOp>(name);
  if (!global) {
    OpBuilder b = OpBuilder::atBlockBegin(module.getBody());
    global = LLVM::GlobalOp::create(
        b, loc, LLVM::LLVMArrayType::get(b.getI8Type(), 0),
        /*isConstant=*/false, LLVM::Linkage::External, name, Attribute(),
        /*alignment=*/16, kSharedSpace);
  }
  return LLVM::AddressOfOp::create(builder, loc, global);
}

Value GpuKernelEmitter::allocate(int64_t count, Type type) {
  return getScratch(reserveScratch(count * getStoredBytes(type)));
}

Value GpuKernelEmitter::allocateOwn(ArrayRef<Value> indices,
                                    ArrayRef<int64_t> counts, int64_t count,
                                    Type type) {
  int64_t total = counts.front();
  Value own = indices.front();
  for (auto [index, size] :
       llvm::zip_equal(indices.drop_front(), counts.drop_front())) {
    total *= size;
    own = arith::MulIOp::create(builder, loc, own, constant(size));
    own = arith::AddIOp::create(builder, loc, own, index);
  }
  Value first = arith::MulIOp::create(builder, loc, own, constant(count));
  return LLVM::GEPOp::create(
      builder, loc, LLVM::LLVMPointerType::get(builder.getContext()),
      getStoredType(type), allocate(total * count, type), ValueRange{first});
}

void GpuKernelEmitter::copy(Value to, Value from, RankedTensorType type) {
  OpBuilder::InsertionGuard guard(builder);
  Value at = beginThreads(type.getNumElements()).front();
  store(to, at, load(from, at, type.getElementType()));
}

Value GpuKernelEmitter::allocateRegister(Type type) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&body.getBody().front());
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  return LLVM::AllocaOp::create(builder, loc, pointer, getStoredType(type),
                                constant(1));
}

int64_t GpuKernelEmitter::reserveScratch(int64_t bytes) {
  int64_t offset = scratchBytes;
  scratchBytes += llvm::alignTo(std::max<int64_t>(bytes, 1), kScratchAlignment);
  return offset;
}

Value GpuKernelEmitter::getScratch(int64_t offset) {
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  return LLVM::GEPOp::create(builder, loc, pointer, builder.getI8Type(),
                             body.getArgument(getNumBuffers()),
                             ValueRange{constant(offset)});
}

//===----------------------------------------------------------------------===//
// Reports
//===----------------------------------------------------------------------===//

/// The first report of a step stays: its command's number, from 1 on, is
/// exchanged for 0.
void GpuKernelEmitter::reportIndex(Value site, Value index, Value bound) {
  OpBuilder::InsertionGuard guard(builder);
  unsigned last = body.getNumArguments() - 1;
  Value report = body.getArgument(last - 1), number = body.getArgument(last);
  auto relaxed = LLVM::AtomicOrdering::monotonic;
  Value exchange = LLVM::AtomicCmpXchgOp::create(
      builder, loc, report, constant(0), number, relaxed, relaxed);
  beginIf(LLVM::ExtractValueOp::create(builder, loc, exchange,
                                       ArrayRef<int64_t>{1}));
  SmallVector<Value> values = {site, index, bound};
  for (auto [place, value] : llvm::enumerate(values))
    store(report, constant(place + 1), value);
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

void GpuKernelEmitter::beginPart() {
  alignmentBranch = nullptr;
  parts.push_back({symbol + "_" + std::to_string(parts.size()), {}, {}, {}});
  parts.back().geometry.block = {1, 1, 1};
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  firstScalar = getNumBuffers() + 1; // behind the scratch
  SmallVector<Type> types(firstScalar, pointer);
  types.append(countScalars(), builder.getI64Type());
  types.append({pointer, builder.getI64Type()});
  builder.setInsertionPointToEnd(module.getBody());
  auto nothing = LLVM::LLVMVoidType::get(builder.getContext());
  body = LLVM::LLVMFuncOp::create(builder, loc, parts.back().symbol,
                                  LLVM::LLVMFunctionType::get(nothing, types));
  body->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(),
                builder.getUnitAttr());
  Block *entry = body.addEntryBlock(builder);
  builder.setInsertionPointToStart(entry);
  auto end = LLVM::ReturnOp::create(builder, loc, ValueRange{});
  builder.setInsertionPoint(end);
  bindMemory();
  for (Value value : plan.inMemory) {
    if (memory.contains(value))
      continue;
    auto type = cast<RankedTensorType>(value.getType());
    if (!scratchOf.contains(value))
      scratchOf[value] = reserveScratch(type.getNumElements() *
                                        getStoredBytes(type.getElementType()));
    memory[value] = getScratch(scratchOf.lookup(value));
  }
}

namespace {
struct BufferUse {
  bool reads = false, writes = false;
};
} // namespace

/// What is done to memory through a pointer and what is computed from it.
static void follow(Value pointer, BufferUse &use) {
  for (OpOperand &operand : pointer.getUses()) {
    Operation *user = operand.getOwner();
    if (isa<LLVM::LoadOp>(user))
      use.reads = true;
    else if (isa<LLVM::StoreOp>(user))
      use.writes = true;
    else if (user->getNumResults() == 1)
      follow(user->getResult(0), use);
  }
}

static void eraseUsers(Value pointer) {
  for (Operation *user : llvm::make_early_inc_range(pointer.getUsers())) {
    for (Value result : user->getResults())
      eraseUsers(result);
    user->erase();
  }
}

/// The parameters become those of the buffers that are used.
void GpuKernelEmitter::pruneArguments() {
  KernelPart &part = parts.back();
  Block &entry = body.getBody().front();
  unsigned numOld = entry.getNumArguments(), numBuffers = getNumBuffers() + 1;
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  std::vector<BufferUse> uses(numBuffers);
  for (unsigned i : llvm::seq(numBuffers)) {
    follow(entry.getArgument(i), uses[i]);
    // What no earlier part has written holds nothing: this one reads its own.
    bool isMade = i >= kernel.getNumArguments() && !written.contains(i);
    if (uses[i].reads && !(isMade && uses[i].writes))
      part.reads.push_back(i);
    if (uses[i].writes)
      part.writes.push_back(i);
  }
  written.insert(part.writes.begin(), part.writes.end());
  for (unsigned i : part.reads)
    entry.getArgument(i).replaceAllUsesWith(entry.addArgument(pointer, loc));
  // What is written as well comes by this argument alone.
  for (unsigned i : part.writes) {
    Value written = entry.addArgument(pointer, loc);
    auto read = llvm::find(part.reads, i);
    if (read != part.reads.end())
      entry.getArgument(numOld + (read - part.reads.begin()))
          .replaceAllUsesWith(written);
    else
      entry.getArgument(i).replaceAllUsesWith(written);
  }
  for (unsigned i : llvm::seq(numBuffers, numOld))
    entry.getArgument(i).replaceAllUsesWith(
        entry.addArgument(entry.getArgument(i).getType(), loc));
  // An address that nobody reads or writes at stays behind.
  for (unsigned i : llvm::seq(numOld))
    eraseUsers(entry.getArgument(i));
  entry.eraseArguments(0, numOld);
  body.setType(
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()),
                                  llvm::to_vector(entry.getArgumentTypes())));
}

/// What is read and written in place is at one index (`mayAlias`), so that to
/// the code generator no pointer is another one's. Through one that is both
/// read and written threads pass values on, and no access of it may cross a
/// barrier, which would be taken for a call that does not know the pointer.
void GpuKernelEmitter::describePointers(unsigned count) {
  const KernelPart &part = parts.back();
  SmallVector<unsigned> buffers(part.reads.begin(), part.reads.end());
  llvm::append_range(buffers, part.writes);
  for (auto [argument, buffer] : llvm::enumerate(buffers))
    if (llvm::count(buffers, buffer) == 1)
      body.setArgAttr(argument, LLVM::LLVMDialect::getNoAliasAttrName(),
                      builder.getUnitAttr());
  if (alignmentBranch)
    checkAlignment(count);
}

void GpuKernelEmitter::checkAlignment(unsigned count) {
  OpBuilder::InsertionGuard guard(builder);
  Block &entry = body.getBody().front();
  builder.setInsertionPointToStart(&entry);
  Value bits = constant(0);
  for (Value pointer : entry.getArguments().take_front(count)) {
    Value address =
        LLVM::PtrToIntOp::create(builder, loc, builder.getI64Type(), pointer);
    bits = arith::OrIOp::create(builder, loc, bits, address);
  }
  Value rest =
      arith::AndIOp::create(builder, loc, bits, constant(kAccessBytes - 1));
  alignmentBranch->setOperand(0, arith::CmpIOp::create(builder, loc,
                                                       arith::CmpIPredicate::eq,
                                                       rest, constant(0)));
  builder.setInsertionPointToStart(&alignmentBranch->getRegion(0).front());
  Value yes =
      arith::ConstantIntOp::create(builder, loc, builder.getI1Type(), 1);
  for (Value pointer : entry.getArguments().take_front(count))
    LLVM::AssumeOp::create(builder, loc, yes, LLVM::AssumeAlignTag(), pointer,
                           constant(kAccessBytes));
}

/// A launch whose number is below 0 does nothing in a step that is refused
/// (tandem_rt/kernel.h): others do not look.
void GpuKernelEmitter::emitGate() {
  OpBuilder::InsertionGuard guard(builder);
  Region &region = body.getBody();
  Block *entry = &region.front(), *rest = entry->splitBlock(entry->begin());
  // Elsewhere they would be no registers.
  for (auto room : llvm::make_early_inc_range(rest->getOps<LLVM::AllocaOp>())) {
    room.getArraySize().getDefiningOp()->moveBefore(entry, entry->end());
    room->moveBefore(entry, entry->end());
  }
  Value number = entry->getArguments().back();
  Value report = entry->getArgument(entry->getNumArguments() - 2);
  Block *look = builder.createBlock(rest), *end = builder.createBlock(&region);
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
  auto branchIf = [&](Block *from, auto predicate, Value value, Block *yes) {
    Value condition =
        arith::CmpIOp::create(builder, loc, predicate, value, constant(0));
    LLVM::CondBrOp::create(builder, loc, condition, yes,
                           from == entry ? rest : end);
  };
  builder.setInsertionPointToEnd(entry);
  branchIf(entry, arith::CmpIPredicate::slt, number, look);
  builder.setInsertionPointToEnd(look);
  constexpr size_t kRefused = offsetof(tandem_rt_launch_report, refused);
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  Value place = LLVM::GEPOp::create(builder, loc, pointer, builder.getI8Type(),
                                    report, ValueRange{constant(kRefused)});
  Value refused =
      LLVM::LoadOp::create(builder, loc, builder.getI64Type(), place);
  branchIf(look, arith::CmpIPredicate::eq, refused, rest);
}

void GpuKernelEmitter::endPart() {
  pruneArguments();
  if (!parts.back().writes.empty()) {
    describePointers(parts.back().reads.size() + parts.back().writes.size());
    emitGate();
    // So registers suffice for the block, as large as it is.
    auto threads = static_cast<int32_t>(parts.back().geometry.block[0]);
    body->setAttr(NVVM::NVVMDialect::getMaxntidAttrName(),
                  builder.getDenseI32ArrayAttr({threads}));
    return;
  }
  body.erase();
  parts.pop_back();
}

void GpuKernelEmitter::emit() {
  beginPart();
  useBlocks(1, 1);
  storeCoordinates();
  endPart();
  for (KernelPlan::Step &step : plan.steps) {
    if (!step.op) {
      emitByBlocks(*this, step.nest);
      continue;
    }
    beginPart();
    emitOwnLoop(*this, step.op);
    endPart();
  }
  beginPart();
  copyRepeatedResults();
  endPart();
}
