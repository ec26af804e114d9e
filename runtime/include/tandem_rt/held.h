//===- held.h - memory of a rank over a step --------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a rank holds over a step: value by value what lies in its arenas, and
// what it holds for the whole step: arguments, results and constants.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_HELD_H
#define TANDEM_RT_HELD_H

#include "tandem_rt/program.h"
#include "tandem_rt/timeline.h"

namespace tandem::rt {

/// Bytes of an arena that hold a value, from the begin of the command that
/// makes it to the end of the last one that reads it. Times in nanoseconds.
struct HeldValue {
  int64_t begin = 0, end = 0;
  int64_t bytes = 0;
  uint32_t maker = 0; ///< Its place in the listing of the rank program.
};

/// Bytes of a rank over a step.
struct MemoryUse {
  /// What is allocated for it, and what of this is no arena.
  int64_t held = 0, fixed = 0;
  /// Most bytes in use, `fixed` included, and since when, in nanoseconds.
  int64_t peak = 0, peakTime = 0;
  /// Bytes in use from a time on, ascending. What ends at a time makes room for
  /// what begins then.
  std::vector<std::pair<int64_t, int64_t>> overTime = {};
  std::vector<HeldValue> values = {};
};

/// Most bytes of a rank's arenas that hold a value at a time, if its listing
/// runs in order: activations, gradients, and what was received.
int64_t mostInArenas(const Program &program, int64_t rank);

/// Of the first step of `timeline`. Values of commands that have no event are
/// left out.
MemoryUse memoryOf(const Program &program, const Timeline &timeline,
                   int64_t rank);

} // namespace tandem::rt

#endif // TANDEM_RT_HELD_H
