//===- memory.cpp - memory in use over a step -----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bytes of an arena are in use from a write to the last read before the next
// one. A Program has no buffers, only what commands touch: pieces of arenas are
// cut where a write begins or ends.
//
//===----------------------------------------------------------------------===//

#include "core/access.h"
#include "tandem_rt/simulate.h"

#include <algorithm>
#include <unordered_map>

namespace tandem::rt {

namespace {
using Span = std::pair<int64_t, int64_t>; ///< Nanoseconds.

class Usage {
public:
  /// Bytes [begin, end) of an arena.
  void read(int64_t begin, int64_t end, const Span &when);
  void write(int64_t begin, int64_t end, const Span &when);
  /// By time: bytes that come into use, or go out of it.
  std::map<int64_t, int64_t> finish();

private:
  struct Piece {
    int64_t end = 0;
    Span used = {};
  };
  void close(int64_t begin, const Piece &piece);

  std::map<int64_t, Piece> pieces; ///< By their begin.
  std::map<int64_t, int64_t> changes;
};

void Usage::close(int64_t begin, const Piece &piece) {
  changes[piece.used.first] += piece.end - begin;
  changes[piece.used.second] -= piece.end - begin;
}

void Usage::read(int64_t begin, int64_t end, const Span &when) {
  auto at = pieces.upper_bound(begin);
  if (at != pieces.begin())
    --at;
  for (; at != pieces.end() && at->first < end; ++at)
    if (at->second.end > begin)
      at->second.used.second = std::max(at->second.used.second, when.second);
}

/// What lay there is not read again.
void Usage::write(int64_t begin, int64_t end, const Span &when) {
  auto at = pieces.upper_bound(begin);
  if (at != pieces.begin())
    --at;
  while (at != pieces.end() && at->first < end) {
    auto [start, piece] = *at;
    if (piece.end <= begin) {
      ++at;
      continue;
    }
    at = pieces.erase(at);
    if (start < begin)
      pieces[start] = {begin, piece.used};
    if (piece.end > end)
      at = pieces.insert({end, piece}).first;
    // A command that reads what it writes over uses one of the two.
    Span used(piece.used.first, std::min(piece.used.second, when.first));
    close(std::max(start, begin), {std::min(piece.end, end), used});
  }
  pieces[begin] = {end, when};
}

std::map<int64_t, int64_t> Usage::finish() {
  for (const auto &[begin, piece] : pieces)
    close(begin, piece);
  return std::move(changes);
}

/// Runs the accesses of a rank in the order of its listing, at the times of the
/// first step.
class Walk {
public:
  Walk(const Program &program, const Timeline &timeline, int64_t rank);
  MemoryUse run();

private:
  void visit(const Command &command, uint32_t place, uint32_t iteration);

  const Program &program;
  const RankProgram &commands;
  const int64_t rank;
  std::unordered_map<uint64_t, Span> times;
  std::vector<Usage> arenas;
};

uint64_t keyOf(uint32_t place, uint32_t iteration) {
  return uint64_t(place) << 32 | iteration;
}

Walk::Walk(const Program &program, const Timeline &timeline, int64_t rank)
    : program(program),
      commands(program.rankPrograms[program.rankToProgram[size_t(rank)]]),
      rank(rank), arenas(commands.arenas.size()) {
  for (const TraceEvent &event : timeline.events)
    if (event.rank == rank && event.step == timeline.events.front().step)
      times[keyOf(event.command, event.iteration)] = {event.begin, event.end};
}

void Walk::visit(const Command &command, uint32_t place, uint32_t iteration) {
  auto when = times.find(keyOf(place, iteration));
  if (when == times.end())
    return;
  for (const Access &access : accessesOf(command)) {
    if (access.ref->space != Space::Arena)
      continue;
    int64_t begin = program.evaluate(access.ref->offset, rank, iteration);
    Usage &usage = arenas[access.ref->index];
    if (access.write)
      usage.write(begin, begin + access.ref->bytes, when->second);
    else
      usage.read(begin, begin + access.ref->bytes, when->second);
  }
}

MemoryUse Walk::run() {
  uint32_t place = 0;
  for (const Command &command : commands.commands) {
    const auto *repeat = std::get_if<Repeat>(&command.operation);
    if (!repeat) {
      visit(command, place++, 0);
      continue;
    }
    ++place;
    for (int64_t i = 0; i < repeat->count; ++i)
      for (uint32_t inner = 0; inner < repeat->body.size(); ++inner)
        visit(repeat->body[inner], place + inner, uint32_t(i));
    place += uint32_t(repeat->body.size());
  }
  MemoryUse use{.held = heldBytes(program, rank)};
  use.fixed = use.held;
  std::map<int64_t, int64_t> changes;
  for (const Arena &arena : commands.arenas)
    use.fixed -= arena.bytes;
  for (Usage &arena : arenas)
    for (auto [time, bytes] : arena.finish())
      changes[time] += bytes;
  int64_t now = use.fixed;
  use.peak = now;
  for (auto [time, bytes] : changes) {
    use.overTime.emplace_back(time, now += bytes);
    if (now > use.peak)
      use.peak = now, use.peakTime = time;
  }
  return use;
}
} // namespace

MemoryUse memoryOf(const Program &program, const Timeline &timeline,
                   int64_t rank) {
  return Walk(program, timeline, rank).run();
}

} // namespace tandem::rt
