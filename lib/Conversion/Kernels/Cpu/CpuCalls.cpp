//===- CpuCalls.cpp - kernels that call kernels, on a CPU -----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Cpu/CpuKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem_rt/kernel.h"

using namespace mlir;
using namespace tandem;

namespace {
class CpuCallEmitter {
public:
  CpuCallEmitter(ArrayRef<KernelCall> calls, ModuleOp target)
      : calls(calls), target(target), b(target.getContext()),
        loc(b.getUnknownLoc()),
        pointer(LLVM::LLVMPointerType::get(target.getContext())) {
    for (const KernelCall &call : calls)
      for (unsigned buffer : call.buffers)
        scratch = std::max(scratch, buffer + 1);
  }
  void emit(StringRef symbol, bool inParts);

private:
  LLVM::LLVMFuncOp declare(StringRef symbol, ArrayRef<Type> arguments,
                           LLVM::Linkage linkage);
  Value getAddress(Value buffers, unsigned index);
  Value collect(Value buffers, const KernelCall &call);
  void emitCall(const KernelCall &call, ValueRange args);
  void emitPart(const KernelCall &call, ValueRange args);

  ArrayRef<KernelCall> calls;
  ModuleOp target;
  OpBuilder b;
  Location loc;
  Type pointer;
  Value list;           ///< Room for the buffers of a call.
  unsigned scratch = 0; ///< Behind all buffers of the kernel.
};
} // namespace

LLVM::LLVMFuncOp CpuCallEmitter::declare(StringRef symbol,
                                         ArrayRef<Type> arguments,
                                         LLVM::Linkage linkage) {
  if (auto known = target.lookupSymbol<LLVM::LLVMFuncOp>(symbol))
    return known;
  OpBuilder begin = OpBuilder::atBlockBegin(target.getBody());
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(b.getContext()), arguments);
  return LLVM::LLVMFuncOp::create(begin, loc, symbol, type, linkage);
}

Value CpuCallEmitter::getAddress(Value buffers, unsigned index) {
  return LLVM::GEPOp::create(
      b, loc, pointer, pointer, buffers,
      ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(index)});
}

/// The buffers of the call, side by side.
Value CpuCallEmitter::collect(Value buffers, const KernelCall &call) {
  SmallVector<unsigned> all(call.buffers);
  if (call.hasScratch)
    all.push_back(scratch);
  for (auto [place, buffer] : llvm::enumerate(all)) {
    Value address =
        LLVM::LoadOp::create(b, loc, pointer, getAddress(buffers, buffer));
    LLVM::StoreOp::create(b, loc, address, getAddress(list, place));
  }
  return list;
}

void CpuCallEmitter::emitCall(const KernelCall &call, ValueRange args) {
  auto whole =
      declare(call.symbol, {pointer, pointer}, LLVM::Linkage::External);
  LLVM::CallOp::create(b, loc, whole, args.take_front(2));
}

/// Whether the kernel has parts is known when objects are linked.
void CpuCallEmitter::emitPart(const KernelCall &call, ValueRange args) {
  Type number = b.getI64Type();
  auto part =
      declare(call.symbol + TANDEM_RT_PART_SUFFIX,
              {pointer, pointer, number, number}, LLVM::Linkage::ExternWeak);
  Value hasParts = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::ne,
                                        LLVM::AddressOfOp::create(b, loc, part),
                                        LLVM::ZeroOp::create(b, loc, pointer));
  Value isFirst =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, args[2],
                            arith::ConstantIntOp::create(b, loc, number, 0));
  auto choice = scf::IfOp::create(b, loc, TypeRange{}, hasParts,
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(choice.thenBlock()->getTerminator());
  LLVM::CallOp::create(b, loc, part, args);
  b.setInsertionPoint(choice.elseBlock()->getTerminator());
  auto alone = scf::IfOp::create(b, loc, TypeRange{}, isFirst,
                                 /*withElseRegion=*/false);
  b.setInsertionPoint(alone.thenBlock()->getTerminator());
  emitCall(call, args);
}

void CpuCallEmitter::emit(StringRef symbol, bool inParts) {
  SmallVector<Type> types(2, pointer);
  if (inParts)
    types.append(2, b.getI64Type());
  b.setInsertionPointToEnd(target.getBody());
  auto entry = LLVM::LLVMFuncOp::create(
      b, loc, symbol,
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                  types));
  Block *block = entry.addEntryBlock(b);
  b.setInsertionPointToStart(block);
  size_t most = 0;
  for (const KernelCall &call : calls)
    most = std::max(most, call.buffers.size() + 1);
  Value room = arith::ConstantIntOp::create(b, loc, b.getI64Type(), most);
  list = LLVM::AllocaOp::create(b, loc, pointer, pointer, room);
  for (const KernelCall &call : calls) {
    SmallVector<Value> args(block->getArguments());
    args[0] = collect(block->getArgument(0), call);
    if (inParts)
      emitPart(call, args);
    else
      emitCall(call, args);
  }
  LLVM::ReturnOp::create(b, loc, ValueRange{});
}

void tandem::emitCpuCalls(ArrayRef<KernelCall> calls, ModuleOp module,
                          StringRef symbol) {
  CpuCallEmitter emitter(calls, module);
  emitter.emit(symbol, /*inParts=*/false);
  emitter.emit((symbol + TANDEM_RT_PART_SUFFIX).str(), /*inParts=*/true);
}
