//===- GpuKernel.h - the launches of one kernel on a GPU --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_KERNELS_GPUKERNEL_H
#define TANDEM_LIB_CONVERSION_KERNELS_GPUKERNEL_H

#include "Calls.h"
#include "Gpu/GpuTarget.h"
#include "Nest/KernelEmitter.h"
#include "tandem/Device/Gpu.h"

namespace tandem {

/// Threads that run together, and exchange what is in their registers.
constexpr int64_t kWarp = 32;

/// A function per part, `symbol_0`, ..., whose parameters are the buffers that
/// it reads, those that it writes, the scalars, and where it reports an index.
/// A part's threads know nothing of one another but what a block's share
/// between barriers; what all of them have done is there in the next part.
class GpuKernelEmitter final : public KernelEmitter {
public:
  GpuKernelEmitter(const GpuTarget &target, mlir::func::FuncOp kernel,
                   mlir::ModuleOp module, llvm::StringRef symbol)
      : KernelEmitter(target, kernel, module, symbol), gpu(target.gpu) {}
  void emit() override;

  const Gpu &gpu;

  /// In the scratch.
  mlir::Value allocate(int64_t count, mlir::Type type) override;
  mlir::Value allocateOwn(llvm::ArrayRef<mlir::Value> indices,
                          llvm::ArrayRef<int64_t> counts, int64_t count,
                          mlir::Type type) override;
  void reportIndex(mlir::Value site, mlir::Value index,
                   mlir::Value bound) override;
  /// Each iteration is done by a thread.
  llvm::SmallVector<mlir::Value>
  beginThreads(llvm::ArrayRef<int64_t> counts) override;
  /// Into the present part and further ones.
  void emitIndexSum(mlir::Operation *op) override;

  /// What is emitted between the two is a launch of its own. One that writes
  /// nothing is left out.
  void beginPart();
  void endPart();
  /// As many blocks as give each of `count` elements a thread, but for the
  /// device's limit.
  void useThreads(int64_t count);
  void useBlocks(int64_t blocks, int64_t threads);
  /// Of the present part; i64.
  mlir::Value getThread();
  mlir::Value getBlock();
  mlir::Value getNumBlocks();
  mlir::Value getGlobalThread();
  void emitBarrier();
  /// The value of the thread of the warp whose number differs in the bit
  /// `distance`; all threads of the block ask.
  mlir::Value shuffle(mlir::Value value, int64_t distance);
  /// Room for an element of each thread's own.
  mlir::Value allocateRegister(mlir::Type type);
  /// A range of the block's shared memory, from its begin.
  mlir::Value getShared(int64_t bytes);
  /// A range of the scratch for the whole kernel: its offset.
  int64_t reserveScratch(int64_t bytes);
  mlir::Value getScratch(int64_t offset);
  /// The indices of the dimensions of `counts` from the linear one.
  llvm::SmallVector<mlir::Value> delinearize(mlir::Value linear,
                                             llvm::ArrayRef<int64_t> counts);
  /// A branch (scf.if) that is taken where all buffers of the part begin at
  /// multiples of 16 bytes, so that neighbours are read and written at once;
  /// the other one elsewhere. One in a part.
  mlir::Operation *branchByAlignment();

private:
  void copy(mlir::Value to, mlir::Value from,
            mlir::RankedTensorType type) override;
  void emitGate();
  void pruneArguments();
  void describePointers(unsigned count);
  void checkAlignment(unsigned count);

  mlir::Operation *alignmentBranch = nullptr; ///< of the present part
  int64_t blockThreads = 0;
  /// Numbers of buffers that parts so far write.
  llvm::DenseSet<unsigned> written;
  llvm::DenseMap<mlir::Value, int64_t> scratchOf;
};

/// Writes the launches of the kernel `symbol` of calls into `module`. `kernels`
/// has what is called by symbol, as linalg.
KernelParts emitGpuCalls(const GpuTarget &target,
                         llvm::ArrayRef<KernelCall> calls,
                         const llvm::StringMap<mlir::func::FuncOp> &kernels,
                         mlir::ModuleOp module, llvm::StringRef symbol);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_KERNELS_GPUKERNEL_H
