//===- measure.cpp - times of commands of the runtime ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "measure.h"
#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace tandem::profile {

using namespace rt;

ProgramBuilder makeBuilder(const Effort &effort,
                           const std::vector<Axis> &mesh) {
  ProgramBuilder builder(mesh);
  builder.addQueue(QueueRole::Communication, "comm");
  // No kernel is measured, so any architecture of the device will do.
  Target target = builder.get().target;
  target.device = effort.device;
  builder.setTarget(std::move(target));
  builder.setMemorySpaces(findDevice(effort.device)->memorySpaces);
  return builder;
}

/// Ones, as zeros might lie on one shared page and be read from a cache.
BufferRef addBuffer(ProgramBuilder &builder, int64_t bytes, uint32_t queue) {
  RankProgram &ranks = builder.mutableProgram().rankPrograms[0];
  int64_t begin = ranks.arenas.empty() ? 0 : ranks.arenas[0].bytes;
  int64_t alignment = builder.get().memorySpaces[0].alignment;
  int64_t padded = (bytes + alignment - 1) / alignment * alignment;
  builder.setArena(begin + padded);
  BufferRef buffer = builder.arena(begin, bytes);
  float one = 1;
  Bytes pattern(sizeof one);
  std::memcpy(pattern.data(), &one, sizeof one);
  builder.add({.name = "fill", .queue = queue}, Fill{buffer, pattern});
  return buffer;
}

AddCommands addGemms(ElementType type, int64_t m, int64_t n, int64_t k) {
  return [=](ProgramBuilder &builder, int64_t count) {
    int64_t width = elementBytes(type);
    Gemm gemm = contiguousGemm(type, m, n, k);
    gemm.a = addBuffer(builder, m * k * width, kCompute);
    gemm.b = addBuffer(builder, k * n * width, kCompute);
    gemm.c = addBuffer(builder, m * n * width, kCompute);
    for (int64_t i = 0; i < count; ++i)
      builder.add({.name = kTimed}, gemm);
  };
}

AddCommands addCopies(int64_t bytes) {
  return [=](ProgramBuilder &builder, int64_t count) {
    Copy copy{addBuffer(builder, bytes, kCompute),
              addBuffer(builder, bytes, kCompute)};
    for (int64_t i = 0; i < count; ++i)
      builder.add({.name = kTimed}, copy);
  };
}

AddCommands addCollectives(CollectiveKind kind, uint32_t axis, int64_t n,
                           int64_t bytes) {
  return [=](ProgramBuilder &builder, int64_t count) {
    int64_t part = bytes / n;
    bool isWhole = kind == CollectiveKind::AllReduce ||
                   kind == CollectiveKind::ReduceScatter;
    Collective op{.kind = kind, .axes = {axis}};
    op.shape = {n, (isWhole ? bytes : part) / n / elementBytes(op.type)};
    if (kind == CollectiveKind::ReduceScatter ||
        kind == CollectiveKind::AllToAll)
      op.splitDim = 0;
    if (kind == CollectiveKind::AllGather)
      op.concatDim = 0;
    if (kind == CollectiveKind::AllToAll)
      op.concatDim = 1;
    bool becomesWhole =
        kind == CollectiveKind::AllReduce || kind == CollectiveKind::AllGather;
    op.source = addBuffer(builder, isWhole ? bytes : part, kComm);
    op.destination = addBuffer(builder, becomesWhole ? bytes : part, kComm);
    // Ranks do not begin a step at the same moment: behind one collective they
    // are together.
    builder.add({.name = "together", .queue = kComm}, op);
    for (int64_t i = 0; i < count; ++i)
      builder.add({.name = kTimed, .queue = kComm}, op);
  };
}

//===----------------------------------------------------------------------===//
// Several processes
//===----------------------------------------------------------------------===//

Expected<double> Effort::share(double seconds) const {
  if (processes == 1)
    return seconds;
  Processes all = *job; // what the processes tell each other is no state here
  Expected<std::string> told = all.broadcast(
      std::string(reinterpret_cast<const char *>(&seconds), sizeof seconds));
  if (!told.ok())
    return told.status();
  std::memcpy(&seconds, told->data(), std::min(sizeof seconds, told->size()));
  return seconds;
}

void Effort::say(const char *format, ...) const {
  if (job && job->process() != 0)
    return;
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
}

//===----------------------------------------------------------------------===//
// Timing
//===----------------------------------------------------------------------===//

namespace {
struct Span {
  int64_t begin = INT64_MAX, end = 0;
};
} // namespace

/// Mean over the ranks here of the time that the timed commands of the last
/// step take together.
static double getSeconds(const Session &session) {
  const Program &program = session.program();
  std::vector<Span> spans(static_cast<size_t>(program.numRanks()));
  for (const TraceEvent &event : session.trace().events) {
    if (program.rankPrograms[0].commands[event.command].name != kTimed)
      continue;
    Span &span = spans[static_cast<size_t>(event.rank)];
    span.begin = std::min(span.begin, event.begin);
    span.end = std::max(span.end, event.end);
  }
  double sum = 0;
  for (int64_t rank : session.job().ranks) {
    const Span &span = spans[static_cast<size_t>(rank)];
    sum += static_cast<double>(span.end - span.begin) * 1e-9;
  }
  return sum / static_cast<double>(session.job().ranks.size());
}

/// Least over the steps of the seconds of all timed commands: what other
/// processes take only adds.
static Expected<double> timeSteps(const Effort &effort,
                                  const std::vector<Axis> &mesh,
                                  const AddCommands &add, int64_t count,
                                  int numSteps) {
  ProgramBuilder builder = makeBuilder(effort, mesh);
  add(builder, count);
  Expected<Bytes> bytes = builder.finish();
  if (!bytes.ok())
    return bytes.status();
  auto session = Session::create(*bytes, {.threads = effort.threads});
  if (!session.ok())
    return session.status();
  std::vector<double> times;
  // The first step touches memory and makes what libraries keep.
  for (int step = 0; step <= numSteps; ++step) {
    (*session)->startTrace();
    if (Status status = (*session)->step(); !status.ok())
      return status;
    if (step > 0)
      times.push_back(getSeconds(**session));
  }
  return effort.share(*std::min_element(times.begin(), times.end()));
}

Expected<int64_t> memoryOfDevice(const Effort &effort) {
  Expected<Bytes> bytes = makeBuilder(effort, {{"all", effort.ranks}}).finish();
  if (!bytes.ok())
    return bytes.status();
  auto session = Session::create(*bytes, {});
  if (!session.ok())
    return session.status();
  return (*session)->memoryBytes();
}

Expected<double> timeCommand(const Effort &effort,
                             const std::vector<Axis> &mesh,
                             const AddCommands &add) {
  Expected<double> once = timeSteps(effort, mesh, add, 1, 1);
  if (!once.ok())
    return once;
  // A Program of more commands takes longer to check than to run.
  constexpr double mostCommands = 1000;
  double count =
      std::clamp(effort.stepSeconds / std::max(*once, 1e-9), 1.0, mostCommands);
  Expected<double> all = timeSteps(
      effort, mesh, add, static_cast<int64_t>(count), effort.numSteps);
  if (!all.ok())
    return all;
  // A clock that did not move still is no time of zero.
  return std::max(*all, 1e-9) / std::floor(count);
}

} // namespace tandem::profile
