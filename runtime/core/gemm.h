//===- gemm.h - a product of matrices ---------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_GEMM_H
#define TANDEM_RT_CORE_GEMM_H

#include "core/strided.h"
#include "tandem_rt/program.h"

#include <array>

namespace tandem::rt {

Strided stridedResult(const Gemm &gemm);

/// What a product reads and writes beside its operands and its result: elements
/// of the result's type, one after the other.
struct BesideGemm {
  const char *what; ///< In errors.
  const std::optional<BufferRef> &ref;
  int64_t elements;
};
std::array<BesideGemm, 4> besideOf(const Gemm &gemm);

/// Types, extents, strides and bytes agree; not where the buffers lie.
Status verifyGemm(const Gemm &gemm);

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_GEMM_H
