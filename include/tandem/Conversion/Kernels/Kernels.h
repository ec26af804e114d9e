//===- Kernels.h - code of fused kernels ------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel is a `func.func` on plain tensors whose body holds nn operators
// other than `nn.matmul`, and `spmd.coordinate`, `local_slice`, `keep_first`;
// or, for a CPU, calls of such functions before it that have no scalars.
// Compiled, it is
//
//   extern "C" void symbol(void *const *buffers, const int64_t *scalars);
//
// `buffers` are the inputs, then the outputs: contiguous, row-major, of
// distinct memory unless `mayAlias` allows it; i1 takes one byte, 0 or 1.
// Behind them comes a scratch of `CompiledKernel::scratchBytes`, if that is not
// 0. `scalars` are this rank's coordinates on `CompiledKernel::axes`, then
// `CompiledKernel::ordinals`. A kernel uses no other state, and may run on
// several threads at once. It reports an index out of range as
// `tandem_rt/kernel.h` says.
//
// On a GPU it is one launch or several, one after the other, each a kernel as
// `tandem_rt/kernel.h` says of those. What one leaves for the next lies in
// outputs and in a scratch that they share.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_KERNELS_KERNELS_H
#define TANDEM_CONVERSION_KERNELS_KERNELS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "tandem_rt/program.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <functional>
#include <string>
#include <vector>

namespace tandem {

struct Device;

struct KernelOptions {
  /// Where compiled kernels are kept between runs, by content. Empty: the
  /// default (Cache.h).
  std::string cacheDir;
  bool useCache = true;
  /// Threads that compile; 0: one for each core that the process may use. The
  /// code does not depend on it.
  unsigned threads = 0;
  /// Of the kernels that others call, those that are launched as well. On a GPU
  /// the code of the rest is in that of who calls them alone.
  llvm::StringSet<> launched;
  /// Told between kernels, by the thread that compiles, how many of how many
  /// are done; false ends the compilation with an error. May be empty.
  std::function<bool(size_t done, size_t all)> progress;
};

/// The CPU that code is made for, with the features that it may use.
std::string describeHostTarget();

/// One launch of a kernel on a GPU.
struct KernelPart {
  std::string symbol;
  /// Numbers of buffers: the kernel's inputs, then outputs, then the scratch.
  std::vector<unsigned> reads, writes;
  rt::Geometry geometry;
};

struct CompiledKernel {
  /// Kernels with the same text but for ordinals share one symbol.
  std::string symbol;
  /// The launches on a GPU.
  std::vector<KernelPart> parts;
  /// Of what launches, or phases on a CPU, leave for one another.
  int64_t scratchBytes = 0;
  /// Space axes whose coordinates the kernel takes, in order.
  std::vector<std::string> axes;
  /// Of the function's random operators, in the order of scalars.
  std::vector<int64_t> ordinals;
};

struct CompiledKernels {
  /// An ELF shared object for this machine's CPU, or PTX.
  std::string object;
  rt::CodeKind kind = rt::CodeKind::SharedObject;
  /// By name of the function.
  llvm::StringMap<CompiledKernel> kernels;
  /// How many came from the cache, and how many were compiled.
  unsigned numCached = 0, numCompiled = 0;
  /// LLVM's name of what the code is for; empty: what this process runs on.
  std::string triple;
  /// LLVM's name of the CPU and the features that the code may use
  /// ("+avx2,+fma,..."), for the Program's target; of a GPU the architecture.
  std::string cpu, features;
};

/// Compiles the functions of `module` that have a body. The mesh is read from
/// the module's `spmd.mesh` (needed by `local_slice` over several axes). An
/// operator without a kernel is an error at its location.
mlir::FailureOr<CompiledKernels> compileKernels(mlir::ModuleOp module,
                                                const KernelOptions &options);

/// Axes whose coordinates the kernel takes as scalars, in order.
std::vector<std::string> getKernelAxes(mlir::func::FuncOp kernel);

/// Inputs and outputs of a kernel of the device, at most.
int64_t getMaxBuffers(const Device &device);

/// Whether result `output` may be written in place of argument `input`: as many
/// elements of one type, elementwise at the same index or by way of one number
/// that all elements make, and no element of the input is needed once that of
/// the output is written; or rows are added to the input.
bool mayAlias(mlir::func::FuncOp kernel, unsigned input, unsigned output);

} // namespace tandem

#endif // TANDEM_CONVERSION_KERNELS_KERNELS_H
