//===- CpuKernel.cpp - the phases of one kernel ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A step that parts can share is a phase; others between two of these are one,
// which one thread does. Which loop is shared is known once the loops of a nest
// are: they are emitted into a function that is thrown away first.
//
//===----------------------------------------------------------------------===//

#include "Cpu/CpuKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem_rt/kernel.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;

/// Name of the pointer that a code object exports, and of the function in it
/// that calls through it.
constexpr llvm::StringLiteral kIndexHookName = "tandem_rt_report_index_hook";
constexpr llvm::StringLiteral kReportName = "tandem_report";
/// Elements below which a step among others is not worth a phase.
constexpr int64_t kLeastElements = 1 << 12;
/// Where a buffer in the scratch may begin, in bytes: a line of a cache.
constexpr int64_t kRoomAlignment = 64;

//===----------------------------------------------------------------------===//
// What the emitters of steps use
//===----------------------------------------------------------------------===//

LLVM::LLVMFuncOp CpuKernelEmitter::declare(StringRef name, Type result,
                                           ArrayRef<Type> arguments) {
  if (auto known = module.lookupSymbol<LLVM::LLVMFuncOp>(name))
    return known;
  OpBuilder b = OpBuilder::atBlockBegin(module.getBody());
  return LLVM::LLVMFuncOp::create(
      b, loc, name, LLVM::LLVMFunctionType::get(result, arguments));
}

Value CpuKernelEmitter::allocate(int64_t count, Type type) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&body.getBody().front());
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  Type stored = getStoredType(type);
  int64_t bytes = std::max<int64_t>(count, 1) * getStoredBytes(type);
  const Device &device = plan.device;
  if (bytes <= device.kernels.maxStackBytes)
    return LLVM::AllocaOp::create(builder, loc, pointer, stored,
                                  constant(count),
                                  device.getValueSpace().alignment);
  auto malloc = declare("malloc", pointer, builder.getI64Type());
  Value memory =
      LLVM::CallOp::create(builder, loc, malloc, constant(bytes)).getResult();
  toFree.push_back(memory);
  return memory;
}

SmallVector<Value> CpuKernelEmitter::beginThreads(ArrayRef<int64_t> counts) {
  SmallVector<Value> inductions;
  for (int64_t count : counts) {
    bool isOfPart = inductions.empty() && isShared();
    inductions.push_back(isOfPart ? beginLoop(getPartBounds())
                                  : beginLoop(count));
  }
  return inductions;
}

void CpuKernelEmitter::reportIndex(Value site, Value index, Value bound) {
  SmallVector<Type> numbers(3, builder.getI64Type());
  auto report = declare(kReportName,
                        LLVM::LLVMVoidType::get(builder.getContext()), numbers);
  LLVM::CallOp::create(builder, loc, report, ValueRange{site, index, bound});
}

void CpuKernelEmitter::copy(Value to, Value from, RankedTensorType type) {
  Value bytes =
      constant(type.getNumElements() * getStoredBytes(type.getElementType()));
  LLVM::MemcpyOp::create(builder, loc, to, from, bytes, /*isVolatile=*/false);
}

//===----------------------------------------------------------------------===//
// Phases
//===----------------------------------------------------------------------===//

static int64_t countElements(const KernelPlan::Step &step) {
  if (!step.op)
    return step.nest.getSize(step.nest.order);
  return cast<RankedTensorType>(step.op->getOperand(0).getType())
      .getNumElements();
}

void CpuKernelEmitter::analyzeNests() {
  beginBody(symbol + "_trial", /*isShared=*/false);
  for (KernelPlan::Step &step : plan.steps) {
    nests.emplace_back();
    if (step.op)
      continue;
    nests.back() = std::make_unique<NestEmitter>(*this, step.nest);
    nests.back()->analyze();
  }
  body.erase();
  toFree.clear();
}

LoopShare CpuKernelEmitter::findShare(unsigned step) {
  LoopShare share = nests[step] ? nests[step]->findShare()
                                : findOwnLoopShare(plan.steps[step].op);
  bool isWorth = plan.steps.size() == 1 ||
                 countElements(plan.steps[step]) >= kLeastElements;
  return isWorth && share.countPieces() > 1 ? share : LoopShare();
}

void CpuKernelEmitter::addAlone(Piece piece) {
  if (phases.empty() || phases.back().isShared())
    phases.emplace_back();
  phases.back().pieces.push_back(piece);
}

void CpuKernelEmitter::addPhase(unsigned step, const LoopShare &share) {
  if (share.count == 0)
    return addAlone({step, {}});
  Phase &phase = phases.emplace_back();
  phase.pieces.push_back({step, {}});
  phase.share = share;
  if (share.block > 0)
    addAlone({step, share});
}

/// What stands before and behind all steps is done by one part.
void CpuKernelEmitter::formPhases() {
  if (llvm::any_of(plan.inMemory, [](Value value) {
        return isa<spmd::CoordinateOp>(value.getDefiningOp());
      }))
    phases.emplace_back();
  for (unsigned step : llvm::seq<unsigned>(0, plan.steps.size()))
    addPhase(step, findShare(step));
  if (phases.empty() || (phases.back().isShared() && repeatsResults()))
    phases.emplace_back();
}

//===----------------------------------------------------------------------===//
// The scratch
//===----------------------------------------------------------------------===//

void CpuKernelEmitter::reserveRoom(Value value, int64_t blocks) {
  int64_t bytes = getStoredBytes(cast<RankedTensorType>(value.getType()));
  rooms.push_back({value, blocks > 0, scratchBytes});
  scratchBytes +=
      llvm::alignTo(bytes * std::max<int64_t>(blocks, 1), kRoomAlignment);
}

/// Of the values in memory that the kernel does not return.
void CpuKernelEmitter::reserveRooms() {
  llvm::DenseSet<Value> returned;
  for (Value value : kernel.front().getTerminator()->getOperands())
    returned.insert(plan.resolve(value));
  for (Value value : plan.inMemory)
    if (!returned.contains(value))
      reserveRoom(value, /*blocks=*/0);
}

void CpuKernelEmitter::bindRooms() {
  partials.clear();
  for (auto [index, room] : llvm::enumerate(rooms)) {
    Value place = body.getArgument(getNumBuffers() + index);
    (room.isOfBlocks ? partials : memory)[room.value] = place;
  }
}

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

/// A function of pointers that do not alias, never inlined, so that this stays
/// known of them.
void CpuKernelEmitter::beginBody(StringRef name, bool isShared) {
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  unsigned numPointers = getNumBuffers() + rooms.size();
  unsigned numNumbers = countScalars() + (isShared ? 2 : 0);
  SmallVector<Type> types(numPointers, pointer);
  types.append(numNumbers, builder.getI64Type());
  builder.setInsertionPointToEnd(module.getBody());
  body = LLVM::LLVMFuncOp::create(
      builder, loc, name,
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()),
                                  types),
      LLVM::Linkage::Internal);
  body.setPassthroughAttr(builder.getStrArrayAttr({"noinline", "nounwind"}));
  for (unsigned i : llvm::seq(numPointers))
    body.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(),
                    builder.getUnitAttr());
  Block *entry = body.addEntryBlock(builder);
  builder.setInsertionPointToStart(entry);
  firstScalar = numPointers;
  firstOfPart = endOfPart = {};
  if (isShared) {
    firstOfPart = entry->getArgument(entry->getNumArguments() - 2);
    endOfPart = entry->getArguments().back();
  }
  bindMemory();
  bindRooms();
}

void CpuKernelEmitter::emitPiece(const Piece &piece, const LoopShare &share) {
  if (Operation *op = plan.steps[piece.step].op)
    emitOwnLoop(*this, op);
  else if (piece.blocks.block > 0)
    nests[piece.step]->addUpBlocks(piece.blocks);
  else
    nests[piece.step]->emitNest(share);
}

void CpuKernelEmitter::freeMemory() {
  auto nothing = LLVM::LLVMVoidType::get(builder.getContext());
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  for (Value buffer : toFree)
    LLVM::CallOp::create(builder, loc, declare("free", nothing, pointer),
                         buffer);
  toFree.clear();
}

void CpuKernelEmitter::emitPhase(Phase &phase, StringRef name) {
  beginBody(name, phase.isShared());
  phase.body = body;
  for (Value value : plan.inMemory) {
    auto type = cast<RankedTensorType>(value.getType());
    if (!memory.contains(value))
      memory[value] = allocate(type.getNumElements(), type.getElementType());
  }
  if (&phase == &phases.front())
    storeCoordinates();
  for (const Piece &piece : phase.pieces)
    emitPiece(piece, phase.share);
  if (&phase == &phases.back())
    copyRepeatedResults();
  freeMemory();
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

//===----------------------------------------------------------------------===//
// Reports
//===----------------------------------------------------------------------===//

/// The hook is weak: all kernels of a code object share one.
LLVM::GlobalOp CpuKernelEmitter::createHook() {
  if (auto known = module.lookupSymbol<LLVM::GlobalOp>(kIndexHookName))
    return known;
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto hook = LLVM::GlobalOp::create(b, loc, pointer, /*isConstant=*/false,
                                     LLVM::Linkage::WeakODR, kIndexHookName,
                                     Attribute());
  b.createBlock(&hook.getInitializerRegion());
  LLVM::ReturnOp::create(b, loc, LLVM::ZeroOp::create(b, loc, pointer));
  return hook;
}

/// The function that reports an index, if a kernel calls it.
void CpuKernelEmitter::createReport() {
  LLVM::GlobalOp hook = createHook();
  auto report = module.lookupSymbol<LLVM::LLVMFuncOp>(kReportName);
  if (!report || !report.isExternal())
    return;
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  report.setLinkage(LLVM::Linkage::Internal);
  report.setPassthroughAttr(b.getStrArrayAttr({"noinline", "cold"}));
  Block *entry = report.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  Value address = LLVM::AddressOfOp::create(b, loc, hook);
  Value function = LLVM::LoadOp::create(b, loc, pointer, address);
  Block *call = b.createBlock(&report.getBody());
  Block *exit = b.createBlock(&report.getBody());
  b.setInsertionPointToEnd(entry);
  Value null = LLVM::ZeroOp::create(b, loc, pointer);
  Value isSet =
      LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::ne, function, null);
  LLVM::CondBrOp::create(b, loc, isSet, call, exit);
  b.setInsertionPointToEnd(call);
  SmallVector<Value> operands = {function};
  llvm::append_range(operands, entry->getArguments());
  LLVM::CallOp::create(b, loc, report.getFunctionType(), operands);
  LLVM::BrOp::create(b, loc, exit);
  b.setInsertionPointToEnd(exit);
  LLVM::ReturnOp::create(b, loc, ValueRange{});
}

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

/// Of buffers, scalars and as many numbers; what follows is inserted there.
LLVM::LLVMFuncOp CpuKernelEmitter::createEntry(StringRef name,
                                               unsigned numNumbers) {
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  SmallVector<Type> types(2, pointer);
  types.append(numNumbers, builder.getI64Type());
  builder.setInsertionPointToEnd(module.getBody());
  auto entry = LLVM::LLVMFuncOp::create(
      builder, loc, name,
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()),
                                  types));
  Block *block = entry.addEntryBlock(builder);
  builder.setInsertionPointToStart(block);
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
  builder.setInsertionPointToStart(block);
  return entry;
}

/// Of a body, but for bounds: the scratch is the last buffer.
SmallVector<Value> CpuKernelEmitter::loadArguments(Block *entry) {
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  SmallVector<Value> args;
  auto loadAt = [&](unsigned from, unsigned index, Type type) -> Value {
    Value at = LLVM::GEPOp::create(
        builder, loc, pointer, type, entry->getArgument(from),
        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(index)});
    return LLVM::LoadOp::create(builder, loc, type, at);
  };
  for (unsigned i : llvm::seq(getNumBuffers()))
    args.push_back(loadAt(0, i, pointer));
  Value scratch = rooms.empty() ? Value() : loadAt(0, getNumBuffers(), pointer);
  for (const Room &room : rooms)
    args.push_back(LLVM::GEPOp::create(builder, loc, pointer,
                                       builder.getI8Type(), scratch,
                                       ValueRange{constant(room.offset)}));
  for (unsigned i : llvm::seq(countScalars()))
    args.push_back(loadAt(1, i, builder.getI64Type()));
  return args;
}

void CpuKernelEmitter::callPhase(const Phase &phase, ArrayRef<Value> arguments,
                                 std::pair<Value, Value> part) {
  SmallVector<Value> all(arguments);
  if (phase.isShared())
    all.append({part.first, part.second});
  LLVM::CallOp::create(builder, loc, phase.body, all);
}

/// Part i of n has the units from i U / n to (i + 1) U / n.
std::pair<Value, Value> CpuKernelEmitter::getShareOfPart(const LoopShare &share,
                                                         Value part,
                                                         Value parts) {
  if (share.count == 0)
    return {};
  Value units = constant(share.countPieces());
  auto firstOf = [&](Value part) -> Value {
    Value own = arith::DivUIOp::create(
        builder, loc, arith::MulIOp::create(builder, loc, part, units), parts);
    Value first =
        arith::MulIOp::create(builder, loc, own, constant(share.unit));
    return arith::MinSIOp::create(builder, loc, first, constant(share.count));
  };
  Value next = arith::AddIOp::create(builder, loc, part, constant(1));
  return {firstOf(part), firstOf(next)};
}

void CpuKernelEmitter::createWhole() {
  Block *entry = &createEntry(symbol, 0).getBody().front();
  SmallVector<Value> args = loadArguments(entry);
  for (const Phase &phase : phases)
    callPhase(phase, args, {constant(0), constant(phase.share.count)});
}

void CpuKernelEmitter::createPart() {
  Block *entry =
      &createEntry(symbol + TANDEM_RT_PART_SUFFIX, 2).getBody().front();
  SmallVector<Value> args = loadArguments(entry);
  callPhase(phases.front(), args,
            getShareOfPart(phases.front().share, entry->getArgument(2),
                           entry->getArgument(3)));
}

/// The entry of a part of a phase, and what there is of phases.
void CpuKernelEmitter::createPhases() {
  Block *entry =
      &createEntry(symbol + TANDEM_RT_PHASE_SUFFIX, 3).getBody().front();
  SmallVector<Value> args = loadArguments(entry);
  int64_t sharedPhases = 0;
  for (auto [index, phase] : llvm::enumerate(phases)) {
    OpBuilder::InsertionGuard guard(builder);
    beginIf(arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                  entry->getArgument(2), constant(index)));
    callPhase(phase, args,
              getShareOfPart(phase.share, entry->getArgument(3),
                             entry->getArgument(4)));
    sharedPhases |= int64_t(phase.isShared()) << index;
  }
  int64_t description[] = {static_cast<int64_t>(phases.size()), sharedPhases};
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  LLVM::GlobalOp::create(b, loc, LLVM::LLVMArrayType::get(b.getI64Type(), 2),
                         /*isConstant=*/true, LLVM::Linkage::External,
                         symbol + TANDEM_RT_PHASES_SUFFIX,
                         b.getI64TensorAttr(description));
}

void CpuKernelEmitter::emit() {
  reserveRooms();
  analyzeNests();
  formPhases();
  if (llvm::none_of(phases, [](const Phase &p) { return p.isShared(); })) {
    rooms.clear();
    scratchBytes = 0;
  }
  for (const Phase &phase : phases)
    if (phase.share.block > 0)
      for (Value value : nests[phase.pieces.front().step]->getSums(phase.share))
        reserveRoom(value, phase.share.count);
  for (auto [index, phase] : llvm::enumerate(phases))
    emitPhase(phase, phases.size() == 1
                         ? symbol + "_body"
                         : symbol + "_body_" + std::to_string(index));
  createWhole();
  if (phases.size() > 1)
    createPhases();
  else if (phases.front().isShared())
    createPart();
  createReport();
}
