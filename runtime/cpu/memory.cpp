//===- memory.cpp - buffers of a rank -------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cpu/memory.h"
#include "core/text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <utility>

namespace tandem::rt::cpu {

Expected<Memory> Memory::allocate(int64_t bytes) {
  constexpr size_t kHugePage = size_t(2) << 20;
  Memory memory;
  // Even an empty buffer has an address: null is no argument of memcpy.
  bytes = std::max<int64_t>(bytes, 1);
  void *start = mmap(nullptr, size_t(bytes), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED)
    return errorOf("cannot allocate ", bytes, " bytes: ", strerror(errno));
  if (size_t(bytes) >= kHugePage)
    madvise(start, size_t(bytes), MADV_HUGEPAGE); // only a hint
  memory.start = static_cast<char *>(start);
  memory.size = size_t(bytes);
  return memory;
}

Memory::Memory(Memory &&other) noexcept
    : start(std::exchange(other.start, nullptr)),
      size(std::exchange(other.size, 0)) {}

Memory &Memory::operator=(Memory &&other) noexcept {
  std::swap(start, other.start);
  std::swap(size, other.size);
  return *this;
}

Memory::~Memory() {
  if (start)
    munmap(start, size);
}

namespace {
/// All or nothing, in `list`.
Status allocateInto(std::vector<Memory> &list, int64_t bytes) {
  Expected<Memory> memory = Memory::allocate(bytes);
  if (!memory.ok())
    return memory.status();
  list.push_back(std::move(*memory));
  return Status::success();
}

template <typename Entry> int64_t localBytes(const Entry &entry) {
  return numElements(entry.localShape) * elementBytes(entry.type);
}
} // namespace

Expected<RankMemory> RankMemory::allocate(const Program &program,
                                          int64_t rank) {
  RankMemory memory;
  memory.program = &program;
  memory.rank = rank;
  Status status;
  auto &rankProgram = program.rankPrograms[program.rankToProgram[size_t(rank)]];
  for (const Arena &arena : rankProgram.arenas)
    if (status.ok())
      status = allocateInto(memory.arenas, arena.bytes);
  for (const Argument &argument : program.arguments)
    if (status.ok())
      status = allocateInto(memory.arguments, localBytes(argument));
  for (const Result &result : program.results)
    if (status.ok())
      status = allocateInto(memory.results, result.place.space == Space::Result
                                                ? localBytes(result)
                                                : 0);
  for (const Bytes &constant : program.constants) {
    if (status.ok())
      status = allocateInto(memory.constants, int64_t(constant.size()));
    if (status.ok() && !constant.empty())
      std::memcpy(memory.constants.back().data(), constant.data(),
                  constant.size());
  }
  if (!status.ok())
    return errorOf("rank ", rank, ": ", status.message());
  return memory;
}

char *RankMemory::resolve(const BufferRef &ref) const {
  int64_t offset = program->evaluate(ref.offset, rank);
  switch (ref.space) {
  case Space::Arena:
    return arenas[ref.index].data() + offset;
  case Space::Argument:
    return arguments[ref.index].data() + offset;
  case Space::Result:
    return results[ref.index].data() + offset;
  case Space::Constant:
    return constants[ref.index].data() + offset;
  }
  return nullptr;
}

} // namespace tandem::rt::cpu
