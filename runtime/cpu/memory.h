//===- memory.h - buffers of a rank -----------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CPU_MEMORY_H
#define TANDEM_RT_CPU_MEMORY_H

#include "core/device.h"

namespace tandem::rt::cpu {

/// Whether the CPU has memory of the kind that `space` is of.
Status checkMemorySpace(const MemorySpace &space);

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

/// Where a reference leads to in each iteration of the Repeat around it.
struct Address {
  char *base = nullptr;
  int64_t step = 0; ///< Bytes; 0 outside of a Repeat.

  char *at(int64_t iteration) const { return base + step * iteration; }
};

/// Memory of the host as values see it.
class HostBuffer final : public Buffer {
public:
  explicit HostBuffer(Memory memory) : memory(std::move(memory)) {}

  Status copyIn(int64_t offset, const void *source, size_t bytes) override;
  Status copyOut(int64_t offset, void *destination,
                 size_t bytes) const override;
  char *data() const { return memory.data(); }

private:
  Memory memory;
};

/// All buffers of one rank: those of values, arenas, and the constants, which
/// the program does not hold at the alignment that kernels expect.
class RankMemory {
public:
  /// Of the rank with number `place` among those of the context. Its buffers
  /// are host buffers, and outlive this.
  static Expected<RankMemory> allocate(const ExecutorContext &context,
                                       size_t place);

  /// The address in iteration 0.
  char *resolve(const BufferRef &ref) const;
  Address address(const BufferRef &ref) const {
    return {resolve(ref), ref.offset.perIteration};
  }

private:
  const Program *program = nullptr;
  int64_t rank = 0;
  std::vector<Memory> arenas, constants;
  std::vector<char *> arguments, results;
};

} // namespace tandem::rt::cpu

#endif // TANDEM_RT_CPU_MEMORY_H
