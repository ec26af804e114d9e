//===- convolution.h - workspace of a convolution ---------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CPU_CONVOLUTION_H
#define TANDEM_RT_CPU_CONVOLUTION_H

#include "cpu/task.h"

namespace tandem::rt::cpu {

/// Hands out the workspace of a command, and, behind its end, memory that it
/// owns. What is handed out holds nothing at the beginning of a run.
class Workspace {
public:
  Workspace(const TaskContext &context, const std::optional<BufferRef> &ref)
      : next(ref ? context.memory.address(*ref) : Address()),
        left(ref ? ref->bytes : 0) {}

  /// Aligned as buffers are.
  Expected<Address> take(int64_t bytes);
  int64_t size() const { return left; }

private:
  Address next;
  int64_t left;
  std::vector<Memory> own;
};

} // namespace tandem::rt::cpu

#endif // TANDEM_RT_CPU_CONVOLUTION_H
