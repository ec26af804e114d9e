//===- strided_copy.h - copies blocks of tensors ----------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_STRIDED_COPY_H
#define TANDEM_RT_CORE_STRIDED_COPY_H

#include "tandem_rt/program.h"

namespace tandem::rt {

/// Copies a block of `extents` elements of `width` bytes; strides are in
/// elements. The two blocks must not overlap.
void copyStrided(const Shape &extents, int64_t width, const void *source,
                 const Shape &sourceStrides, void *destination,
                 const Shape &destinationStrides);

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_STRIDED_COPY_H
