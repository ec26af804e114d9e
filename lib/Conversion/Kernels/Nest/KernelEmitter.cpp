//===- KernelEmitter.cpp - loops of one kernel ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Nest/KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "tandem/Conversion/Kernels/Kernels.h"
#include "tandem/Conversion/NNToLinalg/NNToLinalg.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/SPMD.h"

using namespace mlir;
using namespace tandem;

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

KernelEmitter::KernelEmitter(const KernelTarget &target, func::FuncOp kernel,
                             ModuleOp module, StringRef symbol)
    : builder(kernel.getContext()), loc(builder.getUnknownLoc()),
      plan(target, kernel), kernel(kernel), module(module), symbol(symbol),
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

void KernelEmitter::beginIf(Value condition) {
  auto branch = scf::IfOp::create(builder, loc, TypeRange{}, condition,
                                  /*withElseRegion=*/false);
  builder.setInsertionPoint(branch.thenBlock()->getTerminator());
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Elements of a constant that is no splat.
LLVM::GlobalOp KernelEmitter::createGlobal(nn::ConstantOp op) {
  OpBuilder b = OpBuilder::atBlockBegin(module.getBody());
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
              std::to_string(std::distance(module.getBody()->begin(),
                                           module.getBody()->end()));
  return LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/true,
                                LLVM::Linkage::Internal, name,
                                dense.reshape(flat), /*alignment=*/64);
}

unsigned KernelEmitter::countScalars() {
  return getKernelAxes(kernel).size() + numOrdinals;
}

/// Whether a result is held by another one, an argument or a constant already.
bool KernelEmitter::repeatsResults() {
  llvm::DenseSet<Value> seen;
  return llvm::any_of(
      kernel.front().getTerminator()->getOperands(), [&](Value value) {
        Value held = plan.resolve(value);
        return !plan.inMemory.contains(held) || !seen.insert(held).second;
      });
}

void KernelEmitter::copyRepeatedResults() {
  unsigned first = kernel.getNumArguments();
  Operation *terminator = kernel.front().getTerminator();
  for (auto [index, value] : llvm::enumerate(terminator->getOperands())) {
    Value to = body.getArgument(first + index), from = getMemory(value);
    if (from != to)
      copy(to, from, cast<RankedTensorType>(value.getType()));
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
