//===- access.h - what commands read and write ------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_ACCESS_H
#define TANDEM_RT_CORE_ACCESS_H

#include "tandem_rt/program.h"

namespace tandem::rt {

struct Access {
  const BufferRef *ref;
  bool write;
};

/// Reads before writes, as a command does them.
std::vector<Access> accessesOf(const Operation &operation);

/// Bytes that a Gemm operand spans, from its strides.
int64_t gemmBytes(const Gemm &gemm, const Shape &strides, int64_t rows,
                  int64_t columns, ElementType type);

/// The local shape of a collective's destination for a group of n ranks.
Shape destinationShape(const Collective &collective, int64_t n);

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_ACCESS_H
