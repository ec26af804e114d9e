//===- Workspace.h - memory that libraries need -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SCHED_WORKSPACE_H
#define TANDEM_DIALECT_SCHED_WORKSPACE_H

#include "mlir/IR/Types.h"

namespace tandem::sched {

/// Bytes that a convolution of tensors of these shapes needs beside them. What
/// it makes has elements of `result`, what it reads of `operand`.
int64_t getConvolutionWorkspace(bool makesWeight, mlir::Type operand,
                                mlir::Type result,
                                llvm::ArrayRef<int64_t> input,
                                llvm::ArrayRef<int64_t> weight,
                                llvm::ArrayRef<int64_t> output);

} // namespace tandem::sched

#endif // TANDEM_DIALECT_SCHED_WORKSPACE_H
