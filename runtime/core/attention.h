//===- attention.h - shape of an attention ----------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_ATTENTION_H
#define TANDEM_RT_CORE_ATTENTION_H

#include "core/strided.h"
#include "tandem_rt/program.h"

namespace tandem::rt {

/// The extents of the tensors: (batch, heads, rows, width).
inline Shape queryExtents(const Attention &op) {
  return {op.batch, op.heads, op.queries, op.width};
}
inline Shape keyExtents(const Attention &op) {
  return {op.batch, op.keyHeads, op.keys, op.width};
}
inline Shape valueExtents(const Attention &op) {
  return {op.batch, op.keyHeads, op.keys, op.valueWidth};
}
inline Shape outputExtents(const Attention &op) {
  return {op.batch, op.heads, op.queries, op.valueWidth};
}
inline Shape scoreExtents(const Attention &op) {
  return {op.batch, op.heads, op.queries, op.keys};
}

inline Strided stridedOf(const AttentionTensor &tensor, const Shape &extents,
                         ElementType type) {
  Shape strides = tensor.strides;
  strides.push_back(1);
  return {tensor.buffer.bytes, type, extents, std::move(strides)};
}

/// The element type of the log-sum-exp.
inline ElementType wideType(ElementType type) {
  return type == ElementType::F64 ? type : ElementType::F32;
}

/// From here on in size the log-sum-exp of a row has lost digits of what it is
/// there for: a finite mask of -1e9 at all keys leaves nothing of the logarithm
/// of the sum. Where masks are added, the backward takes the maximum of such a
/// row, and the sum, once more from its scores. Of a row without a score above
/// -2e38 a device may leave any number below that.
inline constexpr double kLargeLogSumExp = 1024;

inline bool addsMask(const Attention &op) {
  return op.mask && op.mask->type != ElementType::I1;
}

/// Weights are kept whose random bits are below it.
uint64_t keepThreshold(double dropout);

/// Types, sizes, strides and bytes agree; not where the buffers lie.
Status verifyAttention(const Attention &attention);

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_ATTENTION_H
