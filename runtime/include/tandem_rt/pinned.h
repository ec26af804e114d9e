//===- pinned.h - memory of the host beside a device ------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_PINNED_H
#define TANDEM_RT_PINNED_H

#include "tandem_rt/program.h"

namespace tandem::rt {

/// Whether a memory space is of the host, beside a device: what lies there
/// counts in pinnedBytes(), and not in heldBytes().
inline bool isPinned(const Program &program, uint32_t memorySpace) {
  return program.memorySpaces[memorySpace].kind == MemoryKind::Pinned;
}

/// Whether a buffer of a rank program lies there.
inline bool isPinned(const Program &program, const RankProgram &own,
                     const BufferRef &buffer) {
  switch (buffer.space) {
  case Space::Arena:
    return isPinned(program, own.arenas[buffer.index].memorySpace);
  case Space::Argument:
    return isPinned(program, program.arguments[buffer.index].memorySpace);
  case Space::Result:
    return isPinned(program, program.results[buffer.index].memorySpace);
  case Space::Constant:
    return isPinned(program, program.constants[buffer.index].memorySpace);
  }
  return false;
}

/// All that a rank holds in pinned memory of its host.
int64_t pinnedBytes(const Program &program, int64_t rank);

} // namespace tandem::rt

#endif // TANDEM_RT_PINNED_H
