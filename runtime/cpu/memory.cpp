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

Status checkMemorySpace(const MemorySpace &space) {
  // Pages of its own stand for the host of a device, which it copies from.
  if (space.kind == MemoryKind::Host || space.kind == MemoryKind::Pinned)
    return Status::success();
  return errorOf("memory space '", space.name, "' is of kind ",
                 memoryKindName(space.kind),
                 ", expected host or pinned, which the CPU has");
}

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

Status HostBuffer::copyIn(int64_t offset, const void *source, size_t bytes) {
  if (bytes) // memcpy takes no null, even for nothing
    std::memcpy(memory.data() + offset, source, bytes);
  return Status::success();
}

Status HostBuffer::copyOut(int64_t offset, void *destination,
                           size_t bytes) const {
  if (bytes)
    std::memcpy(destination, memory.data() + offset, bytes);
  return Status::success();
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

/// Where the slices of one rank lie; null where there are none.
std::vector<char *> addresses(const std::vector<RankBuffers> &tensors,
                              size_t place) {
  std::vector<char *> list;
  for (const RankBuffers &buffers : tensors)
    list.push_back(buffers.empty() || !buffers[place] // not of this rank
                       ? nullptr
                       : static_cast<HostBuffer &>(*buffers[place]).data());
  return list;
}
} // namespace

Expected<RankMemory> RankMemory::allocate(const ExecutorContext &context,
                                          size_t place) {
  const Program &program = context.program;
  RankMemory memory;
  memory.program = &program;
  memory.rank = context.ranks[place];
  memory.arguments = addresses(context.arguments, place);
  memory.results = addresses(context.results, place);
  Status status;
  auto &rankProgram =
      program.rankPrograms[program.rankToProgram[size_t(memory.rank)]];
  for (const Arena &arena : rankProgram.arenas)
    if (status.ok())
      status = allocateInto(memory.arenas, arena.bytes);
  for (const Constant &constant : program.constants) {
    const Bytes &data = constant.data;
    if (status.ok())
      status = allocateInto(memory.constants, int64_t(data.size()));
    if (status.ok() && !data.empty())
      std::memcpy(memory.constants.back().data(), data.data(), data.size());
  }
  if (!status.ok())
    return errorOf("rank ", memory.rank, ": ", status.message());
  return memory;
}

char *RankMemory::resolve(const BufferRef &ref) const {
  int64_t offset = program->evaluate(ref.offset, rank);
  switch (ref.space) {
  case Space::Arena:
    return arenas[ref.index].data() + offset;
  case Space::Argument:
    return arguments[ref.index] + offset;
  case Space::Result:
    return results[ref.index] + offset;
  case Space::Constant:
    return constants[ref.index].data() + offset;
  }
  return nullptr;
}

} // namespace tandem::rt::cpu
