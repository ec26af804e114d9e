//===- held.cpp - memory of a rank over a step ----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem_rt/held.h"
#include "core/access.h"
#include "tandem_rt/pinned.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace tandem::rt {

namespace {
/// Bytes that hold a value from the begin of a command to the end of another
/// one; both are places in the listing of the rank program.
struct HeldSpan {
  int64_t bytes = 0;
  uint32_t first = 0; ///< Writes the value.
  uint32_t last = 0;  ///< Reads it last, or writes the next value there.
  /// `last` writes there: the value ends as it begins.
  bool isReplaced = false;
  /// In a Repeat. Of `first`: the last iteration, and not the first one.
  bool fromLast = false;
  /// In a Repeat: iterations, from the first on, in which it is made again and
  /// held for no other one; 0: it is held once, over all of them.
  int64_t iterations = 0;
};

/// Bytes from the key of a map to `end`.
struct Segment {
  int64_t end = 0;
  HeldSpan span = {};
  /// Times that the body around was passed when it was written and read last.
  int madeIn = 0, readIn = 0;
};
using Segments = std::map<int64_t, Segment>;

/// Passes a body twice: the second time tells what one iteration holds for the
/// next one.
class Holder {
public:
  Holder(const Program &program, int64_t rank)
      : program(program), rank(rank),
        own(program.rankPrograms[program.rankToProgram[size_t(rank)]]),
        arenas(own.arenas.size()) {}
  /// Values in the order in which they end. Those that share bytes one after
  /// the other do not overlap.
  std::vector<HeldSpan> run();

private:
  void passBody(const Repeat &repeat);
  void visit(const Command &command);
  void read(const Access &access);
  void write(const Access &access);
  void split(Segments &segments, int64_t at) const;
  void end(int64_t begin, const Segment &segment);
  std::pair<int64_t, int64_t> rangeOf(const BufferRef &ref) const;

  const Program &program;
  const int64_t rank;
  const RankProgram &own;
  std::vector<Segments> arenas;
  std::vector<HeldSpan> spans;
  uint32_t place = 0;
  /// The body at hand: its first and last place, its iterations, and how often
  /// it was passed; none: 0.
  uint32_t bodyFirst = 0, bodyLast = 0;
  int64_t count = 1;
  int pass = 0;
};

/// Of a moving reference what all iterations touch.
std::pair<int64_t, int64_t> Holder::rangeOf(const BufferRef &ref) const {
  int64_t begin = program.evaluate(ref.offset, rank, 0);
  int64_t last = program.evaluate(ref.offset, rank, count - 1);
  return {std::min(begin, last), std::max(begin, last) + ref.bytes};
}

/// Makes two segments of one that lies on both sides.
void Holder::split(Segments &segments, int64_t at) const {
  auto next = segments.lower_bound(at);
  if (next == segments.begin() || std::prev(next)->second.end <= at)
    return;
  Segment &before = std::prev(next)->second;
  segments.emplace_hint(next, at, before);
  before.end = at;
}

void Holder::end(int64_t begin, const Segment &segment) {
  HeldSpan span = segment.span;
  span.bytes = segment.end - begin;
  bool isOfBody = pass > 0 && segment.madeIn > 0;
  if (isOfBody && segment.madeIn == segment.readIn) {
    if (segment.madeIn == 2)
      return; // As in the first pass.
    span.iterations = pass == 1 ? count : count - 1;
  } else if (isOfBody) {
    span = {span.bytes, bodyFirst, bodyLast};
  }
  spans.push_back(span);
}

void Holder::read(const Access &access) {
  auto [begin, stop] = rangeOf(*access.ref);
  Segments &segments = arenas[access.ref->index];
  auto it = segments.upper_bound(begin);
  if (it != segments.begin() && std::prev(it)->second.end > begin)
    --it;
  for (; it != segments.end() && it->first < stop; ++it) {
    it->second.span.last = place;
    it->second.readIn = pass;
  }
}

void Holder::write(const Access &access) {
  if (pass == 2 && access.ref->offset.perIteration != 0)
    return read(access); // Another piece of what the first pass wrote.
  auto [begin, stop] = rangeOf(*access.ref);
  Segments &segments = arenas[access.ref->index];
  split(segments, begin);
  split(segments, stop);
  auto it = segments.lower_bound(begin);
  for (; it != segments.end() && it->first < stop; it = segments.erase(it)) {
    it->second.span.isReplaced = it->second.span.last == place;
    end(it->first, it->second);
  }
  HeldSpan span{.first = place, .last = place, .fromLast = pass == 2};
  Segment made{stop, span, pass, pass};
  if (access.defines == Defines::Nothing)
    end(begin, made);
  else
    segments.emplace(begin, made);
}

void Holder::visit(const Command &command) {
  for (const Access &access : accessesOf(command))
    if (access.ref->space == Space::Arena && access.ref->bytes > 0 &&
        !isPinned(program, own.arenas[access.ref->index].memorySpace))
      access.write ? write(access) : read(access);
}

void Holder::passBody(const Repeat &repeat) {
  bodyFirst = place + 1, bodyLast = place + uint32_t(repeat.body.size());
  count = repeat.count;
  for (pass = 1; pass <= std::min<int64_t>(count, 2); ++pass) {
    place = bodyFirst;
    for (const Command &command : repeat.body)
      visit(command), ++place;
  }
  for (Segments &segments : arenas)
    for (auto &[begin, segment] : segments)
      segment.madeIn = segment.readIn = 0;
  pass = 0, count = 1, place = bodyLast;
}

std::vector<HeldSpan> Holder::run() {
  for (const Command &command : own.commands) {
    if (const auto *repeat = std::get_if<Repeat>(&command.operation))
      passBody(*repeat);
    else
      visit(command);
    ++place;
  }
  for (const Segments &segments : arenas)
    for (const auto &[begin, segment] : segments)
      end(begin, segment);
  return std::move(spans);
}

/// When a command ran, by iteration.
using Runs = std::map<uint32_t, std::pair<int64_t, int64_t>>;

/// Gives values of a step their times.
class Clock {
public:
  Clock(const Timeline &timeline, int64_t rank) {
    for (const TraceEvent &event : timeline.events)
      if (event.rank == rank && event.step == timeline.events.front().step)
        runs[event.command][event.iteration] = {event.begin, event.end};
  }
  void add(const HeldSpan &span, std::vector<HeldValue> &values) const;

private:
  std::unordered_map<uint32_t, Runs> runs;
};

void Clock::add(const HeldSpan &span, std::vector<HeldValue> &values) const {
  auto first = runs.find(span.first), last = runs.find(span.last);
  if (first == runs.end() || last == runs.end())
    return;
  auto addFrom = [&](const std::pair<int64_t, int64_t> &made,
                     const std::pair<int64_t, int64_t> &read) {
    values.push_back({made.first, span.isReplaced ? read.first : read.second,
                      span.bytes, span.first});
  };
  if (span.iterations == 0)
    return addFrom(span.fromLast ? first->second.rbegin()->second
                                 : first->second.begin()->second,
                   last->second.rbegin()->second);
  for (const auto &[iteration, made] : first->second) {
    auto read = last->second.find(iteration);
    if (iteration < span.iterations && read != last->second.end())
      addFrom(made, read->second);
  }
}

void addCurve(MemoryUse &use) {
  std::map<int64_t, int64_t> changes;
  for (const HeldValue &value : use.values) {
    changes[value.begin] += value.bytes;
    changes[value.end] -= value.bytes;
  }
  int64_t now = use.peak = use.fixed;
  for (auto [time, bytes] : changes) {
    use.overTime.emplace_back(time, now += bytes);
    if (now > use.peak)
      use.peak = now, use.peakTime = time;
  }
}
} // namespace

int64_t mostInArenas(const Program &program, int64_t rank) {
  std::map<uint32_t, int64_t> changes; // by place
  for (const HeldSpan &span : Holder(program, rank).run()) {
    changes[span.first] += span.bytes;
    changes[span.last + !span.isReplaced] -= span.bytes;
  }
  int64_t now = 0, most = 0;
  for (auto [place, bytes] : changes)
    most = std::max(most, now += bytes);
  return most;
}

MemoryUse memoryOf(const Program &program, const Timeline &timeline,
                   int64_t rank) {
  MemoryUse use{.held = heldBytes(program, rank)};
  use.fixed = use.held;
  for (const Arena &arena :
       program.rankPrograms[program.rankToProgram[size_t(rank)]].arenas)
    if (!isPinned(program, arena.memorySpace))
      use.fixed -= arena.bytes;
  Clock clock(timeline, rank);
  for (const HeldSpan &span : Holder(program, rank).run())
    clock.add(span, use.values);
  addCurve(use);
  return use;
}

} // namespace tandem::rt
