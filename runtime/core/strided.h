//===- strided.h - strided elements -----------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_STRIDED_H
#define TANDEM_RT_CORE_STRIDED_H

#include "tandem_rt/program.h"

#include <string>

namespace tandem::rt {

/// The elements of a buffer that an operand is.
struct Strided {
  int64_t bytes; ///< Of the buffer.
  ElementType type;
  Shape extents; ///< Each at least 1.
  Shape strides; ///< Of each dimension, in elements.
};

/// There is a stride for each dimension, none is negative, and the buffer holds
/// all elements; of what is written no two lie at one place. `name` is that of
/// the operand in errors.
Status verifyStrided(const std::string &name, const Strided &operand,
                     bool isWritten);

/// Whether the buffer has bytes that belong to no element, where none overlap.
bool leavesHoles(const Strided &operand);

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_STRIDED_H
