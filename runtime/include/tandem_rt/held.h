//===- held.h - memory of a rank over a step --------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a rank holds in its arenas, value by value. What it holds for the whole
// step, arguments, results and constants, is not among these.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_HELD_H
#define TANDEM_RT_HELD_H

#include "tandem_rt/program.h"

namespace tandem::rt {

/// Bytes that hold a value from the begin of a command to the end of another
/// one; both are places in the listing of the rank program.
struct HeldSpan {
  int64_t bytes = 0;
  uint32_t first = 0; ///< Writes the value.
  uint32_t last = 0;  ///< Reads it last, or writes the next value there.
  /// `last` writes there: the value ends as it begins.
  bool isReplaced = false;
  /// In a Repeat. Of `first`: the last iteration, and not the first one.
  bool fromLast = false;
  /// In a Repeat: iterations, from the first on, in which it is made again and
  /// held for no other one; 0: it is held once, over all of them.
  int64_t iterations = 0;
};

/// Of `rank`, in the order in which they end. Values that share bytes one
/// after the other do not overlap.
std::vector<HeldSpan> heldSpans(const Program &program, int64_t rank);

} // namespace tandem::rt

#endif // TANDEM_RT_HELD_H
