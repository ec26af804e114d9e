//===- strided.cpp - strided elements -------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/strided.h"
#include "core/text.h"
#include "core/verify.h"

#include <algorithm>

namespace tandem::rt {

namespace {
/// From the first element to the end of the last; nothing if 64 bits do not
/// hold it.
std::optional<int64_t> reachOf(const Strided &operand) {
  int64_t last = 0, step, bytes;
  for (size_t dim = 0; dim < operand.extents.size(); ++dim)
    if (__builtin_mul_overflow(operand.extents[dim] - 1, operand.strides[dim],
                               &step) ||
        __builtin_add_overflow(last, step, &last))
      return std::nullopt;
  if (__builtin_add_overflow(last, 1, &last) ||
      __builtin_mul_overflow(last, elementBytes(operand.type), &bytes))
    return std::nullopt;
  return bytes;
}

/// From the innermost dimension on, each steps over what those before it span.
Status verifyApart(const std::string &name, const Strided &operand) {
  std::vector<std::pair<int64_t, int64_t>> dims; ///< Stride and extent.
  for (size_t dim = 0; dim < operand.extents.size(); ++dim)
    if (operand.extents[dim] > 1)
      dims.push_back({operand.strides[dim], operand.extents[dim]});
  std::ranges::sort(dims);
  int64_t span = 1;
  for (auto [stride, extent] : dims) {
    if (stride < span)
      return errorOf(name, " has stride ", stride,
                     " over a dimension of extent ", extent,
                     ", expected at least ", span,
                     ": what is written has a place for each element");
    span += stride * (extent - 1);
  }
  return Status::success();
}
} // namespace

Status verifyStrided(const std::string &name, const Strided &operand,
                     bool isWritten) {
  if (operand.strides.size() != operand.extents.size())
    return errorOf(name, " has ", operand.strides.size(), " strides, expected ",
                   operand.extents.size());
  for (int64_t stride : operand.strides)
    if (stride < 0 || stride > kMaxExtent)
      return errorOf(name, " has stride ", stride, ", expected 0 to 2^40");
  std::optional<int64_t> needed = reachOf(operand);
  if (!needed)
    return errorOf(name, " spans more bytes than 64 bits can count");
  if (operand.bytes < *needed)
    return errorOf(name, " has ", operand.bytes, " bytes, expected at least ",
                   *needed);
  return isWritten ? verifyApart(name, operand) : Status::success();
}

bool leavesHoles(const Strided &operand) {
  return operand.bytes >
         numElements(operand.extents) * elementBytes(operand.type);
}

} // namespace tandem::rt
