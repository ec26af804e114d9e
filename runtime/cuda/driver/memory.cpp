//===- memory.cpp - buffers of a rank -------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/driver/memory.h"
#include "core/text.h"
#include "cuda/driver/callers.h"

namespace tandem::rt::cuda {

Status checkMemorySpace(const MemorySpace &space) {
  if (space.kind == MemoryKind::Device || space.kind == MemoryKind::Pinned)
    return Status::success();
  return errorOf("memory space '", space.name, "' is of kind ",
                 memoryKindName(space.kind),
                 ", expected device or pinned, which a GPU has");
}

Expected<Memory> allocateIn(const MemorySpace &space, std::shared_ptr<Gpu> gpu,
                            int64_t bytes) {
  return space.kind == MemoryKind::Pinned
             ? Memory::pin(std::move(gpu), bytes)
             : Memory::allocate(std::move(gpu), bytes);
}

Status GpuBuffer::copyBlock(const Block &block, int64_t width,
                            const DevicePlace &whole, bool isFromWhole) const {
  Present present(*gpu);
  if (!present.ok())
    return present.status();
  Status status =
      cuda::copyBlock(*gpu, block, width, memory.address(), whole, isFromWhole);
  // Also where it was done in part.
  Status noted =
      gpu->getCallers().note(reinterpret_cast<CUstream>(whole.stream));
  return status.ok() ? noted : status;
}

namespace {
/// Where the slices of one rank lie; 0 where there are none.
std::vector<CUdeviceptr> addresses(const std::vector<RankBuffers> &tensors,
                                   size_t place) {
  std::vector<CUdeviceptr> list;
  for (const RankBuffers &buffers : tensors)
    list.push_back(!buffers.empty() && buffers[place]
                       ? static_cast<GpuBuffer &>(*buffers[place]).address()
                       : 0);
  return list;
}
} // namespace

Expected<RankMemory> RankMemory::allocate(const ExecutorContext &context,
                                          size_t place,
                                          const std::shared_ptr<Gpu> &gpu) {
  const Program &program = context.program;
  RankMemory memory;
  memory.program = &program;
  memory.gpu = gpu;
  memory.rank = context.ranks[place];
  memory.arguments = addresses(context.arguments, place);
  memory.results = addresses(context.results, place);
  Status status;
  auto allocateInto = [&](std::vector<Memory> &list, int64_t bytes,
                          uint32_t space) {
    if (!status.ok())
      return;
    Expected<Memory> made = allocateIn(program.memorySpaces[space], gpu, bytes);
    if ((status = made.status()).ok())
      list.push_back(std::move(*made));
  };
  const RankProgram &rankProgram =
      program.rankPrograms[program.rankToProgram[size_t(memory.rank)]];
  for (const Arena &arena : rankProgram.arenas)
    allocateInto(memory.arenas, arena.bytes, arena.memorySpace);
  for (const Constant &constant : program.constants) {
    allocateInto(memory.constants, int64_t(constant.data.size()),
                 constant.memorySpace);
    if (status.ok())
      status = memory.constants.back().copyIn(0, constant.data.data(),
                                              constant.data.size());
  }
  if (!status.ok())
    return errorOf("rank ", memory.rank, ": ", status.message());
  return memory;
}

Expected<BufferRef> RankMemory::shadowOf(const BufferRef &ref) {
  auto [place, isNew] = shadows.try_emplace(ref.index, arenas.size());
  if (isNew) {
    const Argument &argument = program->arguments[ref.index];
    Expected<Memory> made = Memory::allocate(
        gpu, numElements(argument.localShape) * elementBytes(argument.type));
    if (!made.ok())
      return made.status();
    arenas.push_back(std::move(*made));
  }
  BufferRef shadow = ref;
  shadow.space = Space::Arena;
  shadow.index = place->second;
  return shadow;
}

Address RankMemory::address(const BufferRef &ref) const {
  uint64_t offset = uint64_t(program->evaluate(ref.offset, rank));
  int64_t step = ref.offset.perIteration;
  switch (ref.space) {
  case Space::Arena:
    return {arenas[ref.index].address() + offset, step};
  case Space::Argument:
    return {arguments[ref.index] + offset, step};
  case Space::Result:
    return {results[ref.index] + offset, step};
  case Space::Constant:
    return {constants[ref.index].address() + offset, step};
  }
  return {};
}

Status Workspace::allocate(const std::shared_ptr<Gpu> &gpu) {
  if (bytes == 0)
    return Status::success();
  Expected<Memory> made = Memory::allocate(gpu, int64_t(bytes));
  if (made.ok())
    memory = std::move(*made);
  return made.status();
}

} // namespace tandem::rt::cuda
