//===- reduce.h - sums in a fixed order -------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_REDUCE_H
#define TANDEM_RT_CORE_REDUCE_H

#include "tandem_rt/element_type.h"

#include <span>

namespace tandem::rt {

/// Adds `count` elements of each source, in the order of `sources`, and writes
/// the sum to every destination. bf16 is added in f32 and rounded once;
/// integers wrap. A destination may be one of the sources, at the same place.
/// Sums exist for f64, f32, bf16, i64, i32 and i8.
void sumInOrder(ElementType type, int64_t count,
                std::span<const char *const> sources,
                std::span<char *const> destinations);

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_REDUCE_H
