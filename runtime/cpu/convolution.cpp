//===- convolution.cpp - choice of a convolution library ------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cpu/convolution.h"

namespace tandem::rt::cpu {

Expected<Address> Workspace::take(int64_t bytes) {
  bytes = (bytes + kHostAlignment - 1) / kHostAlignment * kHostAlignment;
  if (bytes <= left) {
    Address taken = next;
    next.base += bytes;
    left -= bytes;
    return taken;
  }
  auto memory = Memory::allocate(bytes);
  if (!memory.ok())
    return memory.status();
  own.push_back(std::move(*memory));
  return Address{own.back().data(), 0};
}

Expected<std::unique_ptr<Task>>
makeConvolution(const TaskContext &context, const Convolution &convolution,
                const std::optional<BufferRef> &workspace) {
  if (convolution.type == ElementType::F64)
    return makeBlasConvolution(context, convolution, workspace);
  return makeDnnlConvolution(context, convolution, workspace);
}

} // namespace tandem::rt::cpu
