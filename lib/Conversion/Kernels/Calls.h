//===- Calls.h - kernels that call kernels ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_KERNELS_CALLS_H
#define TANDEM_LIB_CONVERSION_KERNELS_CALLS_H

#include "Parts.h"

namespace tandem {

/// A call within another kernel, whose buffers have these numbers there. Called
/// kernels have no scalars.
struct KernelCall {
  std::string symbol;
  llvm::SmallVector<unsigned> buffers;
  /// On a CPU, whether it takes a scratch: that of the other kernel, whose last
  /// buffer it is. All calls of a part come one after the other.
  bool hasScratch = false;
};

/// The calls that `kernel` consists of, in their order; none if it has no call.
/// Fails, with an error, if it has something else as well, if what it calls is
/// not in `kernels` or has scalars, or if it does not give arguments to its
/// calls and return their results, each once and in order.
mlir::FailureOr<std::vector<KernelCall>>
getKernelCalls(mlir::func::FuncOp kernel,
               const llvm::StringMap<CompiledKernel> &kernels);

/// For the cache of kernels.
std::string printCalls(llvm::ArrayRef<KernelCall> calls);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_KERNELS_CALLS_H
