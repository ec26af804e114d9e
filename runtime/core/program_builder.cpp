//===- program_builder.cpp - writes Programs ------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem_rt/program_builder.h"
#include "core/text.h"

namespace tandem::rt {

ProgramBuilder::ProgramBuilder(std::vector<Axis> mesh, int64_t micro) {
  program.mesh = std::move(mesh);
  program.micro = micro;
  program.queues.emplace_back();
  program.memorySpaces.emplace_back();
  program.rankPrograms.emplace_back();
  program.rankToProgram.assign(size_t(program.numRanks()), 0);
}

uint32_t ProgramBuilder::addQueue(QueueRole role, std::string name,
                                  bool yields) {
  program.queues.push_back({role, std::move(name), yields});
  return uint32_t(program.queues.size() - 1);
}

uint32_t ProgramBuilder::commQueue(const std::string &name, bool yields) {
  for (uint32_t queue = 0; queue < program.queues.size(); ++queue)
    if (program.queues[queue].name == name)
      return queue;
  return addQueue(QueueRole::Communication, name, yields);
}

uint32_t ProgramBuilder::addMemorySpace(MemorySpace space) {
  program.memorySpaces.push_back(std::move(space));
  return uint32_t(program.memorySpaces.size() - 1);
}

uint32_t ProgramBuilder::addCodeObject(std::string name, Bytes image,
                                       CodeKind kind) {
  program.codeObjects.push_back({std::move(name), std::move(image), kind});
  return uint32_t(program.codeObjects.size() - 1);
}

BufferRef ProgramBuilder::addConstant(Bytes bytes, uint32_t memorySpace) {
  int64_t size = int64_t(bytes.size());
  program.constants.push_back({std::move(bytes), memorySpace});
  return {Space::Constant, uint32_t(program.constants.size() - 1), 0, size};
}

namespace {
int64_t tensorBytes(ElementType type, const Shape &shape) {
  return numElements(shape) * elementBytes(type);
}

/// A form that does not divide leaves the shape empty: finish() says why.
template <typename Entry> void completeForm(const Program &program, Entry &e) {
  if (e.form.dims.empty())
    e.form.dims.resize(e.globalShape.size());
  if (!e.localShape.empty() || e.globalShape.empty())
    return;
  Expected<Shape> local = localShapeOf(program, e.globalShape, e.form);
  if (local.ok())
    e.localShape = *local;
}
} // namespace

uint32_t ProgramBuilder::addArgument(Argument argument) {
  completeForm(program, argument);
  program.arguments.push_back(std::move(argument));
  return uint32_t(program.arguments.size() - 1);
}

uint32_t ProgramBuilder::addResult(Result result) {
  completeForm(program, result);
  uint32_t index = uint32_t(program.results.size());
  if (result.place.space != Space::Argument)
    result.place = {Space::Result, index, 0,
                    tensorBytes(result.type, result.localShape)};
  program.results.push_back(std::move(result));
  return index;
}

uint32_t ProgramBuilder::addUpdate(uint32_t argument) {
  Argument &updated = program.arguments[argument];
  updated.updatedBy = int32_t(program.results.size());
  return addResult({updated.role, updated.name, updated.type,
                    updated.globalShape, updated.localShape, updated.form,
                    this->argument(argument), updated.part,
                    updated.memorySpace});
}

uint32_t ProgramBuilder::addRankProgram() {
  program.rankPrograms.emplace_back();
  currentProgram = uint32_t(program.rankPrograms.size() - 1);
  inRepeat = false;
  return currentProgram;
}

void ProgramBuilder::setRankProgram(int64_t rank, uint32_t rankProgram) {
  program.rankToProgram[size_t(rank)] = rankProgram;
}

void ProgramBuilder::setRankPrograms(uint32_t axis,
                                     std::span<const uint32_t> ofPoints) {
  for (int64_t rank = 0; rank < program.numRanks(); ++rank)
    setRankProgram(rank, ofPoints[size_t(program.coordinates(rank)[axis])]);
}

void ProgramBuilder::setArena(int64_t bytes) {
  if (current().arenas.empty())
    current().arenas.emplace_back();
  current().arenas[0].bytes = bytes;
}

uint32_t ProgramBuilder::addArena(int64_t bytes, uint32_t memorySpace) {
  current().arenas.push_back({bytes, memorySpace});
  return uint32_t(current().arenas.size() - 1);
}

BufferRef ProgramBuilder::arena(Affine offset, int64_t bytes,
                                uint32_t index) const {
  return {Space::Arena, index, std::move(offset), bytes};
}

BufferRef ProgramBuilder::argument(uint32_t index) const {
  const Argument &argument = program.arguments[index];
  return {Space::Argument, index, 0,
          tensorBytes(argument.type, argument.localShape)};
}

BufferRef ProgramBuilder::result(uint32_t index) const {
  return program.results[index].place;
}

BufferRef ProgramBuilder::slice(BufferRef whole, int64_t offset,
                                int64_t bytes) {
  whole.offset.base += offset;
  whole.bytes = bytes;
  return whole;
}

uint32_t ProgramBuilder::add(CommandInfo info, Operation operation) {
  std::vector<Command> &commands = current().commands;
  auto nextAfter = [](const std::vector<Command> &list, uint32_t first) {
    return list.empty() ? first : list.back().id + 1;
  };
  uint32_t id = nextAfter(commands, 0);
  std::vector<Command> *target = &commands;
  if (!commands.empty())
    if (auto *repeat = std::get_if<Repeat>(&commands.back().operation)) {
      id = nextAfter(repeat->body, id);
      if (inRepeat)
        target = &repeat->body;
    }
  target->push_back({id, std::move(info.name), std::move(info.location),
                     info.queue, info.flops, info.bytes, info.stage,
                     info.strand, std::move(info.workspace),
                     std::move(operation), std::move(info.origins)});
  return id;
}

uint32_t ProgramBuilder::beginRepeat(CommandInfo info, int64_t count) {
  uint32_t id = add(std::move(info), Repeat(count));
  inRepeat = true;
  return id;
}

uint32_t ProgramBuilder::transferQueue(int64_t from, int64_t to) {
  return commQueue(concat(from, " to ", to));
}

uint32_t ProgramBuilder::send(CommandInfo info, Transfer op, BufferRef source) {
  info.queue = transferQueue(op.from, op.to);
  op.source = std::move(source);
  return add(std::move(info), std::move(op));
}

uint32_t ProgramBuilder::receive(CommandInfo info, Transfer op,
                                 BufferRef destination) {
  info.queue = transferQueue(op.from, op.to);
  op.destination = std::move(destination);
  return add(std::move(info), std::move(op));
}

uint32_t ProgramBuilder::recordEvent(uint32_t queue) {
  uint32_t event = current().numEvents++;
  add({.name = concat("event ", event), .queue = queue}, RecordEvent{event});
  return event;
}

void ProgramBuilder::waitEvent(uint32_t queue, uint32_t event) {
  add({.name = concat("event ", event), .queue = queue}, WaitEvent{event});
}

Expected<Bytes> ProgramBuilder::finish() const {
  Status status = verifyProgram(program);
  if (!status.ok())
    return status;
  // FlatBuffers' offsets are signed 32 bits.
  constexpr int64_t kMaxBytes = (int64_t(1) << 31) - (int64_t(1) << 26);
  int64_t bytes = 0;
  for (const CodeObject &object : program.codeObjects)
    bytes += int64_t(object.image.size());
  for (const Constant &constant : program.constants)
    bytes += int64_t(constant.data.size());
  if (bytes > kMaxBytes)
    return errorOf("program holds ", bytes,
                   " bytes of code and constants, expected at most ",
                   kMaxBytes);
  return serializeProgram(program);
}

Shape contiguousStrides(const Shape &shape) {
  Shape strides(shape.size(), 1);
  for (size_t dim = shape.size(); dim-- > 1;)
    strides[dim - 1] = strides[dim] * shape[dim];
  return strides;
}

Gemm contiguousGemm(ElementType type, int64_t m, int64_t n, int64_t k,
                    Shape batch) {
  auto strides = [&](int64_t rows, int64_t columns) {
    Shape shape = batch;
    shape.insert(shape.end(), {rows, columns});
    return contiguousStrides(shape);
  };
  Gemm gemm;
  gemm.inputType = gemm.outputType = type;
  gemm.m = m, gemm.n = n, gemm.k = k;
  gemm.stridesA = strides(m, k);
  gemm.stridesB = strides(k, n);
  gemm.stridesC = strides(m, n);
  gemm.batch = std::move(batch);
  return gemm;
}

} // namespace tandem::rt
