//===- GpuTarget.h - kernels of GPUs ----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_KERNELS_GPUTARGET_H
#define TANDEM_LIB_CONVERSION_KERNELS_GPUTARGET_H

#include "Target.h"
#include "tandem/Device/Gpu.h"

namespace tandem {

/// Kernels are launches (`GpuKernelEmitter`). A kernel of calls has the code of
/// all that it calls, since launches call nothing.
class GpuTarget : public KernelTarget {
public:
  GpuTarget(const Device &device, const Gpu &gpu)
      : KernelTarget(device), gpu(gpu) {}

  /// Whether it adds up rows in threads (`addsUpInThreads`).
  bool needsOwnNest(mlir::Operation *op) const override;
  std::unique_ptr<KernelEmitter>
  createEmitter(mlir::func::FuncOp kernel, mlir::ModuleOp module,
                llvm::StringRef symbol) const override;
  int64_t getMaxBuffers() const override { return gpu.maxBuffers; }
  bool holdsCallees() const override { return true; }
  KernelParts emitCalls(llvm::ArrayRef<KernelCall> calls,
                        const llvm::StringMap<mlir::func::FuncOp> &kernels,
                        mlir::ModuleOp module,
                        llvm::StringRef symbol) const override;
  void prepareMath(mlir::ModuleOp module) const override;

  const Gpu &gpu;
};

/// Bytes of the scratch that sums of blocks may take.
inline constexpr int64_t kMaxPartialBytes = 64 << 20;
/// Whether `op` adds up rows, and as many blocks as fill a GPU cannot each have
/// a result of their own: each element is one thread's then, which goes over
/// the rows, and no other operator is in the same loops.
bool addsUpInThreads(mlir::Operation *op, const Gpu &gpu);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_KERNELS_GPUTARGET_H
