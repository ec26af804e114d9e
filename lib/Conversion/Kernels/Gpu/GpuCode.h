//===- GpuCode.h - from LLVM IR to code of a GPU ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_KERNELS_GPUCODE_H
#define TANDEM_LIB_CONVERSION_KERNELS_GPUCODE_H

#include "mlir/IR/BuiltinOps.h"
#include <optional>
#include <string>
#include <vector>

namespace llvm {
class Module;
} // namespace llvm

namespace tandem {

/// Replaces pow, exp2, log2, log10, sin and cos on f32 by arithmetic on f64, as
/// a GPU has no C library. libdevice has what is left.
void writeOutGpuMath(mlir::ModuleOp module);

/// LLVM's name of GPUs that run PTX.
constexpr llvm::StringLiteral kPtxTriple = "nvptx64-nvidia-cuda";

/// PTX of a module in the llvm and nvvm dialects, for `sm_90` and the like.
/// Fails where a function of the C library is called, by a function of
/// libdevice's name, and no libdevice is found.
std::optional<std::string> generatePtx(mlir::ModuleOp module,
                                       llvm::StringRef architecture,
                                       std::string &error);

/// PTX of several modules, which have no name in common, as one.
std::string joinPtx(llvm::ArrayRef<std::string> texts);

/// An ELF object for the host of the same module (`tandem_rt/emulated.h`).
std::optional<std::string> generateEmulated(mlir::ModuleOp module,
                                            std::string &error);

/// Kernels of LLVM IR with the intrinsics of NVVM as those of the emulated GPU:
/// an access asks for the host's address, a register is a field of the thread.
/// Shared memory must be an external array.
void emulateKernels(llvm::Module &module);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_KERNELS_GPUCODE_H
