//===- KernelEmitter.cpp - loops of one kernel ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"
#include "NestEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "tandem/Conversion/Kernels/Kernels.h"
#include "tandem/Conversion/NNToLinalg/NNToLinalg.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem_rt/kernel.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;

/// Buffers of at most this many bytes lie on the stack.
constexpr llvm::StringLiteral kReportName = "tandem_report";
Type tandem::getStoredType(Type type) {
  if (type.isInteger(1))
    return IntegerType::get(type.getContext(), 8);
  if (type.isBF16())
    return IntegerType::get(type.getContext(), 16);
  return type;
}

int64_t tandem::getStoredBytes(Type type) {
  return (getStoredType(type).getIntOrFloatBitWidth() + 7) / 8;
}

int64_t tandem::getStoredBytes(RankedTensorType type) {
  return type.getNumElements() * getStoredBytes(type.getElementType());
}

int64_t tandem::getOrdinalNumber(func::CallOp call) {
  APInt number;
  if (call.getCallee() != kLaunchOrdinalName ||
      !matchPattern(call.getOperand(0), m_ConstantInt(&number)))
    return -1;
  return number.getSExtValue();
}

static unsigned countOrdinals(func::FuncOp kernel) {
  int64_t count = 0;
  kernel.walk([&](func::CallOp call) {
    count = std::max(count, getOrdinalNumber(call) + 1);
  });
  return count;
}

KernelEmitter::KernelEmitter(func::FuncOp kernel, ModuleOp target,
                             StringRef symbol)
    : builder(kernel.getContext()), loc(builder.getUnknownLoc()), plan(kernel),
      gpu(findGpu(plan.device)), kernel(kernel), target(target), symbol(symbol),
      numOrdinals(countOrdinals(kernel)) {}

//===----------------------------------------------------------------------===//
// What the emitters of steps use
//===----------------------------------------------------------------------===//

Value KernelEmitter::constant(int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, builder.getI64Type(),
                                      value);
}

Value KernelEmitter::toI64(Value value) {
  if (value.getType().isInteger(64))
    return value;
  return arith::IndexCastOp::create(builder, loc, builder.getI64Type(), value);
}

Value KernelEmitter::toIndex(Value value) {
  return arith::IndexCastOp::create(builder, loc, builder.getIndexType(),
                                    value);
}

Value KernelEmitter::getMemory(Value value) {
  return memory.at(plan.resolve(value));
}

bool KernelEmitter::hasMemory(Value value) const {
  return memory.contains(plan.resolve(value));
}

Value KernelEmitter::getCoordinate(StringRef axis) const {
  return coordinates.lookup(axis);
}

/// Ordinals are the last scalars.
Value KernelEmitter::getOrdinal(int64_t number) {
  return body.getArgument(firstScalar + coordinates.size() + number);
}

static Value getElement(OpBuilder &b, Location loc, Value memory, Value index,
                        Type type) {
  return LLVM::GEPOp::create(b, loc, memory.getType(), getStoredType(type),
                             memory, ValueRange{index},
                             LLVM::GEPNoWrapFlags::inbounds);
}

Value KernelEmitter::load(Value memory, Value index, Type type) {
  Value at = getElement(builder, loc, memory, index, type);
  Value value = LLVM::LoadOp::create(builder, loc, getStoredType(type), at);
  if (type.isBF16())
    return arith::BitcastOp::create(builder, loc, type, value);
  if (!type.isInteger(1))
    return value;
  Value zero = arith::ConstantIntOp::create(builder, loc, value.getType(), 0);
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, value,
                               zero);
}

void KernelEmitter::store(Value memory, Value index, Value value) {
  Type type = value.getType();
  Value at = getElement(builder, loc, memory, index, type);
  if (type.isInteger(1))
    value = arith::ExtUIOp::create(builder, loc, getStoredType(type), value);
  if (type.isBF16())
    value = arith::BitcastOp::create(builder, loc, getStoredType(type), value);
  LLVM::StoreOp::create(builder, loc, value, at);
}

LLVM::LLVMFuncOp KernelEmitter::declare(StringRef name, Type result,
                                        ArrayRef<Type> arguments) {
  if (auto known = target.lookupSymbol<LLVM::LLVMFuncOp>(name))
    return known;
  OpBuilder b = OpBuilder::atBlockBegin(target.getBody());
  return LLVM::LLVMFuncOp::create(
      b, loc, name, LLVM::LLVMFunctionType::get(result, arguments));
}

Value KernelEmitter::allocate(int64_t count, Type type) {
  if (isGpu())
    return getScratch(reserveScratch(count * getStoredBytes(type)));
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

Value KernelEmitter::beginLoop(int64_t count) {
  return beginLoop({constant(0), constant(count)});
}

Value KernelEmitter::beginLoop(std::pair<Value, Value> bounds) {
  auto [first, end] = bounds;
  auto loop = scf::ForOp::create(builder, loc, first, end, constant(1));
  builder.setInsertionPoint(loop.getBody()->getTerminator());
  return loop.getInductionVar();
}

void KernelEmitter::fill(Value memory, int64_t count, Value value) {
  OpBuilder::InsertionGuard guard(builder);
  Value index = beginLoop(count);
  store(memory, index, value);
}

SmallVector<Value> KernelEmitter::beginThreads(ArrayRef<int64_t> counts) {
  SmallVector<Value> inductions;
  if (!isGpu()) {
    for (int64_t count : counts)
      inductions.push_back(beginLoop(count));
    return inductions;
  }
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

void KernelEmitter::reportIndex(Value site, Value index, Value bound) {
  if (isGpu())
    return emitGpuReport(site, index, bound);
  SmallVector<Type> numbers(3, builder.getI64Type());
  auto report = declare(kReportName,
                        LLVM::LLVMVoidType::get(builder.getContext()), numbers);
  LLVM::CallOp::create(builder, loc, report, ValueRange{site, index, bound});
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// The hook is weak: all kernels of a code object share one.
LLVM::GlobalOp KernelEmitter::createHook() {
  if (auto known = target.lookupSymbol<LLVM::GlobalOp>(kIndexHookName))
    return known;
  OpBuilder b = OpBuilder::atBlockEnd(target.getBody());
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto hook = LLVM::GlobalOp::create(b, loc, pointer, /*isConstant=*/false,
                                     LLVM::Linkage::WeakODR, kIndexHookName,
                                     Attribute());
  b.createBlock(&hook.getInitializerRegion());
  LLVM::ReturnOp::create(b, loc, LLVM::ZeroOp::create(b, loc, pointer));
  return hook;
}

/// The function that reports an index, if a kernel calls it.
void KernelEmitter::createReport() {
  LLVM::GlobalOp hook = createHook();
  auto report = target.lookupSymbol<LLVM::LLVMFuncOp>(kReportName);
  if (!report || !report.isExternal())
    return;
  OpBuilder b = OpBuilder::atBlockEnd(target.getBody());
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

/// A function of pointers that do not alias, never inlined, so that this stays
/// known of them.
void KernelEmitter::createBody(unsigned numScalars) {
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  unsigned numBuffers = kernel.getNumArguments() + kernel.getNumResults();
  SmallVector<Type> types(numBuffers, pointer);
  types.append(numScalars, builder.getI64Type());
  builder.setInsertionPointToEnd(target.getBody());
  body = LLVM::LLVMFuncOp::create(
      builder, loc, symbol + "_body",
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()),
                                  types),
      LLVM::Linkage::Internal);
  body.setPassthroughAttr(builder.getStrArrayAttr({"noinline", "nounwind"}));
  SmallVector<DictionaryAttr> attrs(
      numBuffers,
      builder.getDictionaryAttr(builder.getNamedAttr(
          LLVM::LLVMDialect::getNoAliasAttrName(), builder.getUnitAttr())));
  attrs.append(numScalars, builder.getDictionaryAttr({}));
  body.setAllArgAttrs(attrs);
  body.addEntryBlock(builder);
}

/// Whether all that the kernel does is one nest, which stores nothing but the
/// kernel's results.
bool KernelEmitter::hasOneNest() {
  if (isGpu() || plan.steps.size() != 1 || plan.steps.front().op)
    return false;
  llvm::DenseSet<Value> results;
  for (Value value : kernel.front().getTerminator()->getOperands()) {
    Value stored = plan.resolve(value);
    if (!plan.steps.front().nest.makes(stored) ||
        !results.insert(stored).second)
      return false;
  }
  return llvm::all_of(plan.inMemory,
                      [&](Value value) { return results.contains(value); });
}

/// Takes the last two arguments, which nothing uses.
void KernelEmitter::dropPartBounds() {
  unsigned count = body.getNumArguments() - 2;
  SmallVector<DictionaryAttr> attrs;
  body.getAllArgAttrs(attrs);
  body.setFunctionType(LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(builder.getContext()),
      ArrayRef<Type>(body.getArgumentTypes()).take_front(count)));
  body.setAllArgAttrs(ArrayRef(attrs).take_front(count));
  body.getBody().front().eraseArguments(count, 2);
  firstOfPart = endOfPart = {};
}

SmallVector<Value> KernelEmitter::loadArguments(Block *entry,
                                                unsigned numScalars) {
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  SmallVector<Value> args;
  auto loadAt = [&](unsigned from, unsigned index, Type type) {
    Value at = LLVM::GEPOp::create(
        builder, loc, pointer, type, entry->getArgument(from),
        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(index)});
    args.push_back(LLVM::LoadOp::create(builder, loc, type, at));
  };
  for (unsigned i : llvm::seq(getNumBuffers()))
    loadAt(0, i, pointer);
  for (unsigned i : llvm::seq(numScalars))
    loadAt(1, i, builder.getI64Type());
  return args;
}

void KernelEmitter::createEntry(unsigned numScalars) {
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  builder.setInsertionPointToEnd(target.getBody());
  auto entry = LLVM::LLVMFuncOp::create(
      builder, loc, symbol,
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()),
                                  {pointer, pointer}));
  Block *block = entry.addEntryBlock(builder);
  builder.setInsertionPointToStart(block);
  SmallVector<Value> args = loadArguments(block, numScalars);
  if (isShared())
    args.append({constant(0), constant(shared.count)});
  LLVM::CallOp::create(builder, loc, body, args);
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

/// Part i of n has the units from i U / n to (i + 1) U / n.
void KernelEmitter::createPartEntry(unsigned numScalars) {
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  Type number = builder.getI64Type();
  builder.setInsertionPointToEnd(target.getBody());
  auto entry = LLVM::LLVMFuncOp::create(
      builder, loc, symbol + TANDEM_RT_PART_SUFFIX,
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()),
                                  {pointer, pointer, number, number}));
  Block *block = entry.addEntryBlock(builder);
  builder.setInsertionPointToStart(block);
  SmallVector<Value> args = loadArguments(block, numScalars);
  Value part = block->getArgument(2), parts = block->getArgument(3);
  Value units = constant(llvm::divideCeil(shared.count, shared.unit));
  auto firstOf = [&](Value part) -> Value {
    Value share = arith::DivUIOp::create(
        builder, loc, arith::MulIOp::create(builder, loc, part, units), parts);
    Value first =
        arith::MulIOp::create(builder, loc, share, constant(shared.unit));
    return arith::MinSIOp::create(builder, loc, first, constant(shared.count));
  };
  Value next = arith::AddIOp::create(builder, loc, part, constant(1));
  args.append({firstOf(part), firstOf(next)});
  LLVM::CallOp::create(builder, loc, body, args);
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

/// Elements of a constant that is no splat.
LLVM::GlobalOp KernelEmitter::createGlobal(nn::ConstantOp op) {
  OpBuilder b = OpBuilder::atBlockBegin(target.getBody());
  auto dense = cast<DenseElementsAttr>(op.getValue());
  Type element = dense.getElementType();
  if (element.isInteger(1)) {
    SmallVector<int8_t> bytes;
    for (bool value : dense.getValues<bool>())
      bytes.push_back(value);
    dense = DenseElementsAttr::get(
        RankedTensorType::get(bytes.size(), b.getI8Type()),
        ArrayRef<int8_t>(bytes));
  }
  int64_t count = dense.getNumElements();
  auto flat = RankedTensorType::get(count, dense.getElementType());
  auto type = LLVM::LLVMArrayType::get(dense.getElementType(), count);
  auto name = symbol + "_constant_" +
              std::to_string(std::distance(target.getBody()->begin(),
                                           target.getBody()->end()));
  return LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/true,
                                LLVM::Linkage::Internal, name,
                                dense.reshape(flat), /*alignment=*/64);
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

void KernelEmitter::emitSteps() {
  for (KernelPlan::Step &step : plan.steps) {
    if (step.op)
      emitOwnLoop(*this, step.op);
    else
      NestEmitter(*this, step.nest).emit();
  }
}

/// Results that another result, an argument or a constant holds already.
void KernelEmitter::copyRepeatedResults() {
  unsigned first = kernel.getNumArguments();
  Operation *terminator = kernel.front().getTerminator();
  for (auto [index, value] : llvm::enumerate(terminator->getOperands())) {
    Value to = body.getArgument(first + index), from = getMemory(value);
    if (from == to)
      continue;
    auto type = cast<RankedTensorType>(value.getType());
    if (isGpu()) {
      OpBuilder::InsertionGuard guard(builder);
      Value at = beginThreads(type.getNumElements()).front();
      store(to, at, load(from, at, type.getElementType()));
      continue;
    }
    Value bytes =
        constant(type.getNumElements() * getStoredBytes(type.getElementType()));
    LLVM::MemcpyOp::create(builder, loc, to, from, bytes,
                           /*isVolatile=*/false);
  }
}

/// What lies in memory that is not the kernel's own.
void KernelEmitter::bindMemory() {
  memory.clear();
  for (auto [index, argument] : llvm::enumerate(kernel.getArguments()))
    memory[argument] = body.getArgument(index);
  for (auto [index, axis] : llvm::enumerate(getKernelAxes(kernel)))
    coordinates[axis] = body.getArgument(firstScalar + index);
  for (auto op : kernel.front().getOps<nn::ConstantOp>()) {
    LLVM::GlobalOp &global = globals[op.getResult()];
    if (!global)
      global = createGlobal(op);
    memory[op.getResult()] = LLVM::AddressOfOp::create(builder, loc, global);
  }
  unsigned first = kernel.getNumArguments();
  Operation *terminator = kernel.front().getTerminator();
  for (auto [index, value] : llvm::enumerate(terminator->getOperands()))
    memory.try_emplace(plan.resolve(value), body.getArgument(first + index));
}

void KernelEmitter::storeCoordinates() {
  for (Value value : plan.inMemory)
    if (auto coordinate = value.getDefiningOp<spmd::CoordinateOp>())
      store(memory[value], constant(0), getCoordinate(coordinate.getAxis()));
}

void KernelEmitter::emitFunction() {
  unsigned numScalars = getKernelAxes(kernel).size() + numOrdinals;
  bool isOneNest = hasOneNest();
  createBody(numScalars + (isOneNest ? 2 : 0));
  builder.setInsertionPointToStart(&body.getBody().front());
  firstScalar = getNumBuffers();
  if (isOneNest) {
    firstOfPart = body.getArgument(firstScalar + numScalars);
    endOfPart = body.getArgument(firstScalar + numScalars + 1);
  }
  bindMemory();
  for (Value value : plan.inMemory) {
    auto type = cast<RankedTensorType>(value.getType());
    if (!memory.contains(value))
      memory[value] = allocate(type.getNumElements(), type.getElementType());
  }
  storeCoordinates();
  emitSteps();
  copyRepeatedResults();
  auto nothing = LLVM::LLVMVoidType::get(builder.getContext());
  for (Value buffer : toFree) {
    auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
    LLVM::CallOp::create(builder, loc, declare("free", nothing, pointer),
                         buffer);
  }
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
  if (canShare() && !isShared())
    dropPartBounds();
  createEntry(numScalars);
  if (isShared())
    createPartEntry(numScalars);
  createReport();
}

void KernelEmitter::emit() {
  if (isGpu())
    emitParts();
  else
    emitFunction();
}
