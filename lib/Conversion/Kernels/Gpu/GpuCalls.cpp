//===- GpuCalls.cpp - kernels that call kernels, on a GPU -----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The calls have nothing in common, so they run side by side: part i of the
// kernel has the blocks of part i of each call. Calls of one kernel are one
// copy of its code, for which a block finds out whose it is.
//
//===----------------------------------------------------------------------===//

#include "Gpu/GpuKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;

namespace {
struct Callee {
  std::vector<KernelPart> parts;
  unsigned numBuffers;
  /// Numbers of calls.
  SmallVector<size_t> calls;
};

/// A part of a callee, of which each of its calls has as many blocks.
struct CalledPart {
  const Callee *callee;
  const KernelPart *part;
};

class GpuCallEmitter {
public:
  GpuCallEmitter(const GpuTarget &target, ArrayRef<KernelCall> calls,
                 ModuleOp module, StringRef symbol)
      : target(target), calls(calls), module(module), symbol(symbol),
        b(module.getContext()), loc(b.getUnknownLoc()),
        pointer(LLVM::LLVMPointerType::get(module.getContext())) {}
  KernelParts emit(const llvm::StringMap<func::FuncOp> &kernels);

private:
  void emitCallees(const llvm::StringMap<func::FuncOp> &kernels);
  LLVM::LLVMFuncOp makeCallee(const KernelPart &part);
  void emitPart(ArrayRef<CalledPart> called);
  KernelPart describe(ArrayRef<CalledPart> called);
  LLVM::LLVMFuncOp createKernel(const KernelPart &part);
  unsigned getNumber(const Callee &callee, size_t call, unsigned buffer) const;
  SmallVector<Value> collect(const CalledPart &called, size_t call);
  SmallVector<Value> choose(const CalledPart &called, Value which);
  void emitCalls(const CalledPart &called, Value block);
  Value number(int64_t value) {
    return arith::ConstantIntOp::create(b, loc, b.getI32Type(), value);
  }

  const GpuTarget &target;
  ArrayRef<KernelCall> calls;
  ModuleOp module;
  std::string symbol;
  OpBuilder b;
  Location loc;
  Type pointer;
  llvm::MapVector<StringRef, Callee> callees;
  SmallVector<int64_t> scratchOf; ///< Where that of a call begins.
  unsigned numBuffers = 0;
  KernelParts result;
  /// Of the present part, by number: the pointer.
  llvm::DenseMap<unsigned, Value> buffers;
  LLVM::LLVMFuncOp kernel;
};
} // namespace

//===----------------------------------------------------------------------===//
// Callees
//===----------------------------------------------------------------------===//

void GpuCallEmitter::emitCallees(const llvm::StringMap<func::FuncOp> &kernels) {
  SmallVector<int64_t> scratchBytes(calls.size());
  for (auto [index, call] : llvm::enumerate(calls)) {
    auto [place, isNew] = callees.try_emplace(call.symbol);
    Callee &callee = place->second;
    callee.calls.push_back(index);
    numBuffers += call.buffers.size();
    scratchOf.push_back(result.scratchBytes);
    if (isNew) {
      // Names that the kernel by itself does not have.
      GpuKernelEmitter emitter(target, kernels.at(call.symbol), module,
                               symbol + "_callee" + std::to_string(index));
      emitter.emit();
      KernelParts parts = emitter.takeParts();
      callee.parts = std::move(parts.parts);
      callee.numBuffers = call.buffers.size();
      scratchBytes[index] = parts.scratchBytes;
    } else {
      scratchBytes[index] = scratchBytes[callee.calls.front()];
    }
    result.scratchBytes += scratchBytes[index];
  }
}

/// The kernel as a function that is told its block, and knows their number.
LLVM::LLVMFuncOp GpuCallEmitter::makeCallee(const KernelPart &part) {
  auto function = module.lookupSymbol<LLVM::LLVMFuncOp>(part.symbol);
  function->removeAttr(NVVM::NVVMDialect::getKernelFuncAttrName());
  function.setLinkage(LLVM::Linkage::Internal);
  function.setAlwaysInline(true);
  SmallVector<DictionaryAttr> attrs;
  function.getAllArgAttrs(attrs);
  attrs.resize(function.getNumArguments() + 1, b.getDictionaryAttr({}));
  Value block = function.getBody().front().addArgument(b.getI32Type(), loc);
  function.setFunctionType(LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(b.getContext()),
      llvm::to_vector(function.getBody().front().getArgumentTypes())));
  function.setAllArgAttrs(attrs);
  function.walk([&](NVVM::BlockIdXOp op) {
    op.replaceAllUsesWith(block);
    op.erase();
  });
  function.walk([&](NVVM::GridDimXOp op) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(op);
    op.replaceAllUsesWith(number(part.geometry.grid[0]));
    op.erase();
  });
  return function;
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

/// The number in the kernel of a callee's buffer, or of the scratch.
unsigned GpuCallEmitter::getNumber(const Callee &callee, size_t call,
                                   unsigned buffer) const {
  return buffer < callee.numBuffers ? calls[call].buffers[buffer] : numBuffers;
}

KernelPart GpuCallEmitter::describe(ArrayRef<CalledPart> called) {
  KernelPart joined;
  joined.symbol = symbol + "_" + std::to_string(result.parts.size());
  joined.geometry = called.front().part->geometry;
  joined.geometry.grid[0] = 0;
  for (auto [callee, part] : called) {
    joined.geometry.grid[0] += callee->calls.size() * part->geometry.grid[0];
    joined.geometry.sharedBytes =
        std::max(joined.geometry.sharedBytes, part->geometry.sharedBytes);
    for (size_t call : callee->calls) {
      for (unsigned buffer : part->reads)
        joined.reads.push_back(getNumber(*callee, call, buffer));
      for (unsigned buffer : part->writes)
        joined.writes.push_back(getNumber(*callee, call, buffer));
    }
  }
  for (auto *numbers : {&joined.reads, &joined.writes}) {
    llvm::sort(*numbers);
    numbers->erase(llvm::unique(*numbers), numbers->end());
  }
  return joined;
}

/// What is written as well comes by that argument.
LLVM::LLVMFuncOp GpuCallEmitter::createKernel(const KernelPart &part) {
  SmallVector<Type> types(part.reads.size() + part.writes.size() + 1, pointer);
  types.push_back(b.getI64Type());
  b.setInsertionPointToEnd(module.getBody());
  auto function = LLVM::LLVMFuncOp::create(
      b, loc, part.symbol,
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                  types));
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(),
                    b.getUnitAttr());
  Block *entry = function.addEntryBlock(b);
  buffers.clear();
  for (auto [index, buffer] :
       llvm::enumerate(llvm::concat<const unsigned>(part.reads, part.writes)))
    buffers[buffer] = entry->getArgument(index);
  b.setInsertionPointToStart(entry);
  b.setInsertionPoint(LLVM::ReturnOp::create(b, loc, ValueRange{}));
  return function;
}

/// The pointers of a call.
SmallVector<Value> GpuCallEmitter::collect(const CalledPart &called,
                                           size_t call) {
  SmallVector<Value> pointers;
  for (unsigned buffer :
       llvm::concat<const unsigned>(called.part->reads, called.part->writes)) {
    Value address = buffers.at(getNumber(*called.callee, call, buffer));
    if (buffer >= called.callee->numBuffers) {
      Value offset =
          arith::ConstantIntOp::create(b, loc, b.getI64Type(), scratchOf[call]);
      address = LLVM::GEPOp::create(b, loc, pointer, b.getI8Type(), address,
                                    ValueRange{offset});
    }
    pointers.push_back(address);
  }
  return pointers;
}

/// The pointers of one of the calls.
SmallVector<Value> GpuCallEmitter::choose(const CalledPart &called,
                                          Value which) {
  ArrayRef<size_t> own = called.callee->calls;
  SmallVector<int64_t> cases =
      llvm::to_vector(llvm::seq<int64_t>(0, own.size() - 1));
  SmallVector<Type> types(
      called.part->reads.size() + called.part->writes.size(), pointer);
  Value index = arith::IndexCastUIOp::create(b, loc, b.getIndexType(), which);
  auto choice =
      scf::IndexSwitchOp::create(b, loc, types, index, cases, cases.size());
  OpBuilder::InsertionGuard guard(b);
  for (auto [place, region] : llvm::enumerate(choice->getRegions())) {
    // The default comes first: it is the last call.
    size_t call = place == 0 ? own.back() : own[place - 1];
    b.createBlock(&region);
    scf::YieldOp::create(b, loc, collect(called, call));
  }
  return SmallVector<Value>(choice.getResults());
}

/// `block` is counted from the first of these calls.
void GpuCallEmitter::emitCalls(const CalledPart &called, Value block) {
  SmallVector<Value> args;
  if (called.callee->calls.size() == 1) {
    args = collect(called, called.callee->calls.front());
  } else {
    Value blocks = number(called.part->geometry.grid[0]);
    args = choose(called, arith::DivUIOp::create(b, loc, block, blocks));
    block = arith::RemUIOp::create(b, loc, block, blocks);
  }
  llvm::append_range(args, kernel.getArguments().take_back(2));
  args.push_back(block);
  LLVM::CallOp::create(b, loc, makeCallee(*called.part), args);
}

void GpuCallEmitter::emitPart(ArrayRef<CalledPart> called) {
  KernelPart part = describe(called);
  kernel = createKernel(part);
  Value block = NVVM::BlockIdXOp::create(b, loc, b.getI32Type());
  int64_t first = 0;
  for (const CalledPart &each : called) {
    int64_t count = each.callee->calls.size() * each.part->geometry.grid[0];
    Value own = arith::SubIOp::create(b, loc, block, number(first));
    first += count;
    if (&each == &called.back()) {
      emitCalls(each, own);
      break;
    }
    Value isOwn = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult,
                                        block, number(first));
    auto branch = scf::IfOp::create(b, loc, TypeRange{}, isOwn,
                                    /*withElseRegion=*/true);
    b.setInsertionPoint(branch.thenBlock()->getTerminator());
    emitCalls(each, own);
    b.setInsertionPoint(branch.elseBlock()->getTerminator());
  }
  result.parts.push_back(std::move(part));
}

/// Parts of blocks of one size run together.
KernelParts GpuCallEmitter::emit(const llvm::StringMap<func::FuncOp> &kernels) {
  emitCallees(kernels);
  std::map<std::pair<size_t, uint32_t>, SmallVector<CalledPart>> parts;
  for (auto &[name, callee] : callees)
    for (auto [index, part] : llvm::enumerate(callee.parts))
      parts[{index, part.geometry.block[0]}].push_back({&callee, &part});
  for (auto &[key, called] : parts)
    emitPart(called);
  return std::move(result);
}

KernelParts tandem::emitGpuCalls(const GpuTarget &target,
                                 ArrayRef<KernelCall> calls,
                                 const llvm::StringMap<func::FuncOp> &kernels,
                                 ModuleOp module, StringRef symbol) {
  return GpuCallEmitter(target, calls, module, symbol).emit(kernels);
}
