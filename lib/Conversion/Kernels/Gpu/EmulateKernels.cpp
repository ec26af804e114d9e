//===- EmulateKernels.cpp - GPU kernels for the host ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Gpu/GpuCode.h"
#include "tandem_rt/emulated.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/Module.h"

using namespace tandem;

/// In NVIDIA's memory model.
constexpr unsigned kSharedSpace = 3;

namespace {
/// Turns one kernel into the function that `emulated.h` says.
class Emulator {
public:
  explicit Emulator(llvm::Function &kernel)
      : kernel(kernel), module(*kernel.getParent()),
        builder(kernel.getContext()) {}
  void run();

private:
  void moveBody();
  void rewrite(llvm::Instruction &instruction);
  void rewriteAccess(llvm::Instruction &instruction, unsigned operand,
                     llvm::Type *type, bool writes);
  void rewriteCall(llvm::IntrinsicInst &call);
  void rewriteShuffle(llvm::IntrinsicInst &call);
  llvm::Value *loadField(size_t offset, llvm::Type *type);
  void describe();

  llvm::Function &kernel;
  llvm::Module &module;
  llvm::IRBuilder<> builder;
  llvm::Function *emulated = nullptr;
  llvm::Value *thread = nullptr;
  bool waits = false;
};
} // namespace

void Emulator::moveBody() {
  llvm::Type *pointer = builder.getPtrTy();
  auto *type = llvm::FunctionType::get(builder.getVoidTy(), {pointer, pointer},
                                       /*isVarArg=*/false);
  emulated = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage,
                                    "", module);
  emulated->takeName(&kernel);
  thread = emulated->getArg(0);
  auto *entry =
      llvm::BasicBlock::Create(module.getContext(), "entry", emulated);
  llvm::BasicBlock *first = &kernel.getEntryBlock();
  emulated->splice(emulated->end(), &kernel);
  builder.SetInsertPoint(entry);
  for (llvm::Argument &argument : kernel.args()) {
    llvm::Value *at = builder.CreateConstGEP1_64(pointer, emulated->getArg(1),
                                                 argument.getArgNo());
    llvm::Value *place = builder.CreateLoad(pointer, at);
    argument.replaceAllUsesWith(builder.CreateLoad(argument.getType(), place));
  }
  builder.CreateBr(first);
}

llvm::Value *Emulator::loadField(size_t offset, llvm::Type *type) {
  llvm::Value *at =
      builder.CreateConstGEP1_64(builder.getInt8Ty(), thread, offset);
  return builder.CreateLoad(type, at);
}

/// What lies on the stack or is a constant of the code is the host's.
static bool isOfDevice(llvm::Value *pointer) {
  if (pointer->getType()->getPointerAddressSpace() == kSharedSpace)
    return true;
  return !llvm::isa<llvm::AllocaInst, llvm::GlobalVariable>(
      llvm::getUnderlyingObject(pointer, /*MaxLookup=*/0));
}

void Emulator::rewriteAccess(llvm::Instruction &instruction, unsigned operand,
                             llvm::Type *type, bool writes) {
  llvm::Value *pointer = instruction.getOperand(operand);
  if (!isOfDevice(pointer))
    return;
  bool isShared = pointer->getType()->getPointerAddressSpace() == kSharedSpace;
  builder.SetInsertPoint(&instruction);
  llvm::Type *i64 = builder.getInt64Ty(), *i32 = builder.getInt32Ty(),
             *opaque = builder.getPtrTy();
  int kind = (writes ? TANDEM_RT_EMULATED_WRITE : TANDEM_RT_EMULATED_READ) +
             (isShared ? TANDEM_RT_EMULATED_OF_SHARED : 0);
  uint64_t bytes = module.getDataLayout().getTypeStoreSize(type);
  auto *access = llvm::FunctionType::get(opaque, {opaque, i64, i64, i32},
                                         /*isVarArg=*/false);
  llvm::Value *function =
      loadField(offsetof(tandem_rt_emulated_thread, access), opaque);
  llvm::Value *place = builder.CreateCall(
      access, function,
      {thread, builder.CreatePtrToInt(pointer, i64),
       llvm::ConstantInt::get(i64, bytes), llvm::ConstantInt::get(i32, kind)});
  instruction.setOperand(operand, place);
}

/// Where the register of an intrinsic lies in a thread.
static std::optional<size_t> getField(llvm::Intrinsic::ID id) {
  using namespace llvm::Intrinsic;
  using Thread = tandem_rt_emulated_thread;
  const std::array<std::pair<ID, size_t>, 12> fields = {{
      {nvvm_read_ptx_sreg_tid_x, offsetof(Thread, thread)},
      {nvvm_read_ptx_sreg_tid_y, offsetof(Thread, thread) + 4},
      {nvvm_read_ptx_sreg_tid_z, offsetof(Thread, thread) + 8},
      {nvvm_read_ptx_sreg_ctaid_x, offsetof(Thread, block)},
      {nvvm_read_ptx_sreg_ctaid_y, offsetof(Thread, block) + 4},
      {nvvm_read_ptx_sreg_ctaid_z, offsetof(Thread, block) + 8},
      {nvvm_read_ptx_sreg_ntid_x, offsetof(Thread, block_size)},
      {nvvm_read_ptx_sreg_ntid_y, offsetof(Thread, block_size) + 4},
      {nvvm_read_ptx_sreg_ntid_z, offsetof(Thread, block_size) + 8},
      {nvvm_read_ptx_sreg_nctaid_x, offsetof(Thread, grid_size)},
      {nvvm_read_ptx_sreg_nctaid_y, offsetof(Thread, grid_size) + 4},
      {nvvm_read_ptx_sreg_nctaid_z, offsetof(Thread, grid_size) + 8},
  }};
  for (auto [known, offset] : fields)
    if (known == id)
      return offset;
  return std::nullopt;
}

/// Of all threads of a warp, which is all that kernels here ask for.
void Emulator::rewriteShuffle(llvm::IntrinsicInst &call) {
  waits = true;
  llvm::Type *i32 = builder.getInt32Ty(), *opaque = builder.getPtrTy();
  auto *type = llvm::FunctionType::get(i32, {opaque, i32, i32}, false);
  llvm::Value *hook =
      loadField(offsetof(tandem_rt_emulated_thread, shuffle), opaque);
  llvm::Value *other = builder.CreateCall(
      type, hook, {thread, call.getArgOperand(1), call.getArgOperand(2)});
  call.replaceAllUsesWith(other);
  call.eraseFromParent();
}

void Emulator::rewriteCall(llvm::IntrinsicInst &call) {
  builder.SetInsertPoint(&call);
  if (std::optional<size_t> offset = getField(call.getIntrinsicID())) {
    call.replaceAllUsesWith(loadField(*offset, call.getType()));
    call.eraseFromParent();
    return;
  }
  if (call.getIntrinsicID() == llvm::Intrinsic::nvvm_shfl_sync_bfly_i32)
    return rewriteShuffle(call);
  if (call.getIntrinsicID() !=
      llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_all)
    return;
  waits = true;
  auto *type =
      llvm::FunctionType::get(builder.getVoidTy(), {builder.getPtrTy()}, false);
  builder.CreateCall(type,
                     loadField(offsetof(tandem_rt_emulated_thread, barrier),
                               builder.getPtrTy()),
                     {thread});
  call.eraseFromParent();
}

void Emulator::rewrite(llvm::Instruction &instruction) {
  if (auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction))
    rewriteAccess(*load, load->getPointerOperandIndex(), load->getType(),
                  false);
  else if (auto *store = llvm::dyn_cast<llvm::StoreInst>(&instruction))
    rewriteAccess(*store, store->getPointerOperandIndex(),
                  store->getValueOperand()->getType(), true);
  else if (auto *atomic = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(&instruction))
    rewriteAccess(*atomic, atomic->getPointerOperandIndex(),
                  atomic->getCompareOperand()->getType(), true);
  else if (auto *call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction))
    rewriteCall(*call);
}

void Emulator::describe() {
  std::array<uint32_t, 2> shape = {static_cast<uint32_t>(kernel.arg_size()),
                                   waits};
  auto *value = llvm::ConstantDataArray::get(module.getContext(), shape);
  new llvm::GlobalVariable(module, value->getType(), /*isConstant=*/true,
                           llvm::GlobalValue::ExternalLinkage, value,
                           emulated->getName() + TANDEM_RT_EMULATED_SHAPE);
}

void Emulator::run() {
  std::vector<llvm::Instruction *> all;
  for (llvm::Instruction &instruction : llvm::instructions(kernel))
    all.push_back(&instruction);
  moveBody();
  for (llvm::Instruction *instruction : all)
    rewrite(*instruction);
  describe();
  kernel.eraseFromParent();
}

void tandem::emulateKernels(llvm::Module &module) {
  std::vector<llvm::Function *> kernels;
  for (llvm::Function &function : module)
    if (function.getCallingConv() == llvm::CallingConv::PTX_Kernel)
      kernels.push_back(&function);
  for (llvm::Function *kernel : kernels)
    Emulator(*kernel).run();
  for (llvm::GlobalVariable &global :
       llvm::make_early_inc_range(module.globals())) {
    if (global.getAddressSpace() != kSharedSpace)
      continue;
    auto *i64 = llvm::Type::getInt64Ty(module.getContext());
    global.replaceAllUsesWith(llvm::ConstantExpr::getIntToPtr(
        llvm::ConstantInt::get(i64, TANDEM_RT_EMULATED_SHARED),
        global.getType()));
    global.eraseFromParent();
  }
}
