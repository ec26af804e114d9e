//===- memory.h - buffers of a rank -----------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CPU_MEMORY_H
#define TANDEM_RT_CPU_MEMORY_H

#include "tandem_rt/program.h"

namespace tandem::rt::cpu {

/// Zeroed memory, aligned to pages; large ones ask for huge pages.
class Memory {
public:
  static Expected<Memory> allocate(int64_t bytes);
  Memory() = default;
  Memory(Memory &&other) noexcept;
  Memory &operator=(Memory &&other) noexcept;
  ~Memory();

  char *data() const { return start; }

private:
  char *start = nullptr;
  size_t size = 0;
};

/// All buffers of one rank: arenas, arguments, results, and the constants,
/// which the program does not hold at the alignment that kernels expect.
class RankMemory {
public:
  static Expected<RankMemory> allocate(const Program &program, int64_t rank);

  char *resolve(const BufferRef &ref) const;

private:
  const Program *program = nullptr;
  int64_t rank = 0;
  std::vector<Memory> arenas, arguments, results, constants;
};

} // namespace tandem::rt::cpu

#endif // TANDEM_RT_CPU_MEMORY_H
