//===- hazards.cpp - queues, events and bytes -----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One pass over the commands in their listed order, with a vector clock per
// queue and, per range of bytes, the last write and the last reads. The body of
// a Repeat is passed twice: the second pass stands for every further iteration,
// as events are those of one iteration and so all iterations are ordered alike.
//
//===----------------------------------------------------------------------===//

#include "core/access.h"
#include "core/coordinates.h"
#include "core/text.h"
#include "core/verify.h"

#include <algorithm>
#include <cstdlib>
#include <map>

namespace tandem::rt {

namespace {
/// Per queue, how many of its commands are known to be done. Missing queues
/// are at 0.
using Clock = std::vector<int64_t>;

int64_t at(const Clock &clock, uint32_t queue) {
  return queue < clock.size() ? clock[queue] : 0;
}

void raise(Clock &clock, uint32_t queue, int64_t number) {
  if (queue >= clock.size())
    clock.resize(queue + 1);
  clock[queue] = std::max(clock[queue], number);
}

/// The last accesses to a range of bytes, as 1 + the command's number in its
/// queue, 0 if there is none. One write is enough, as it came after all that
/// was before it; of reads the last of each queue.
struct Range {
  int64_t end = 0;
  int64_t write = 0;
  uint32_t writer = 0; ///< The queue of the write.
  Clock reads = {};
  bool isDefined = false; ///< Has a value that may be read.
};

/// Disjoint ranges of one space, by their beginnings.
using Ranges = std::map<int64_t, Range>;

/// Cuts a range in two, so that one begins at `at`.
void cut(Ranges &ranges, int64_t at) {
  auto it = ranges.upper_bound(at);
  if (it == ranges.begin())
    return;
  --it;
  if (it->first == at || it->second.end <= at)
    return;
  Range tail = it->second;
  it->second.end = at;
  ranges.emplace(at, std::move(tail));
}

/// Makes ranges exist over [begin, end).
void cover(Ranges &ranges, int64_t begin, int64_t end) {
  cut(ranges, begin);
  cut(ranges, end);
  int64_t at = begin;
  auto it = ranges.lower_bound(begin);
  while (at < end) {
    int64_t next = it == ranges.end() ? end : std::min(end, it->first);
    if (at < next)
      ranges.emplace(at, Range{next});
    if (it == ranges.end() || it->first >= end)
      return;
    at = it->second.end;
    ++it;
  }
}

/// Puts `made` in the place of what it covers. A write comes after all that was
/// ordered before it: what was known of the pieces is now one fact, but for
/// what they hold between elements.
void write(Ranges &ranges, int64_t begin, Range made, Defines defines) {
  auto first = ranges.find(begin), last = ranges.lower_bound(made.end);
  if (defines == Defines::Elements) {
    for (; first != last; ++first)
      first->second = {first->second.end,
                       made.write,
                       made.writer,
                       {},
                       first->second.isDefined};
    return;
  }
  ranges.erase(first, last);
  made.isDefined = defines == Defines::All;
  ranges.emplace(begin, std::move(made));
}

struct Event {
  const Command *recorder = nullptr;
  const Command *scope = nullptr; ///< The Repeat around it.
  bool isRecorded = false;
  Clock clock = {}; ///< What its queue knew.
};

class HazardVerifier {
public:
  HazardVerifier(const Program &program, int64_t rank,
                 const CoordinateUses *only)
      : program(program), rank(rank), only(only),
        rankProgram(program.rankPrograms[program.rankToProgram[size_t(rank)]]),
        known(program.queues.size()), queues(program.queues.size()),
        events(rankProgram.numEvents) {}

  Status verify();

private:
  Status visit(const Command &command);
  Status visitRepeat(const Command &command, const Repeat &op);
  Status record(const Command &command, uint32_t event);
  Status wait(const Command &command, uint32_t event);
  Status touch(const Command &command, const Access &access);
  Status touchBytes(const Command &command, const Access &access, int64_t begin,
                    int64_t bytes);
  Status touchRange(const Command &command, const Access &access, int64_t begin,
                    int64_t end);
  Status checkRange(const Command &command, const Access &access,
                    const Range &range) const;
  Status conflict(const Command &command, const Access &access, uint32_t queue,
                  int64_t number, bool otherWrites) const;
  Status checkResults();
  Status checkUpdate(const Command &command, const Access &access) const;
  void countChecks();

  const Program &program;
  const int64_t rank;
  /// Null: looks at all. Else at what depends on coordinates.
  const CoordinateUses *only;
  const RankProgram &rankProgram;
  std::vector<Clock> known;
  std::vector<std::vector<const Command *>> queues;
  std::vector<Event> events;
  std::map<std::pair<Space, uint32_t>, Ranges> spaces;

  /// The Repeat around the command that is looked at, and its iteration.
  const Command *scope = nullptr;
  int64_t iterations = 1;
  bool isFurther = false;
  Clock iterationBegin; ///< Of each queue, where this pass began.
  /// What moving references have been touched, over all iterations.
  int64_t numSlices = 0;

  /// How often each check has still to be passed, the sum, and on each queue
  /// the last that was.
  std::map<const Command *, int64_t> checksLeft;
  int64_t numChecksLeft = 0;
  Clock checked;
};

/// Two passes of a body stand for all.
int64_t passesOf(const Repeat &op) { return std::min<int64_t>(op.count, 2); }

Status HazardVerifier::conflict(const Command &command, const Access &access,
                                uint32_t queue, int64_t number,
                                bool otherWrites) const {
  const Command &other = *queues[queue][size_t(number - 1)];
  bool before = isFurther && number <= at(iterationBegin, queue);
  return errorOf(commandText(command), " of rank ", rank,
                 access.write ? " writes " : " reads ",
                 bufferText(program, *access.ref, rank), ", which ",
                 commandText(other), otherWrites ? " writes" : " reads",
                 " on queue '", program.queues[queue].name, "'",
                 before ? " in the iteration before" : "",
                 ", with no event between them");
}

Status HazardVerifier::checkRange(const Command &command, const Access &access,
                                  const Range &range) const {
  const Clock &mine = known[command.queue];
  if (range.write > at(mine, range.writer))
    return conflict(command, access, range.writer, range.write, true);
  if (access.write)
    for (uint32_t queue = 0; queue < range.reads.size(); ++queue)
      if (range.reads[queue] > at(mine, queue))
        return conflict(command, access, queue, range.reads[queue], false);
  Space space = access.ref->space;
  bool startsUnwritten = space == Space::Arena || space == Space::Result;
  if (!access.write && !range.isDefined && startsUnwritten)
    return errorOf(commandText(command), " of rank ", rank, " reads ",
                   bufferText(program, *access.ref, rank),
                   ", which nothing wrote before");
  return Status::success();
}

/// What moves is an iteration's own, so the first pass has compared it with all
/// that there is to compare it with.
Status HazardVerifier::touchRange(const Command &command, const Access &access,
                                  int64_t begin, int64_t end) {
  Ranges &ranges = spaces[{access.ref->space, access.ref->index}];
  cover(ranges, begin, end);
  bool isChecked = isFurther && access.ref->offset.perIteration;
  int64_t number = int64_t(queues[command.queue].size());
  auto first = ranges.find(begin);
  for (auto it = first; it != ranges.end() && it->first < end; ++it) {
    Status status;
    if (!isChecked)
      status = checkRange(command, access, it->second);
    if (!status.ok())
      return status;
    if (!access.write)
      raise(it->second.reads, command.queue, number);
  }
  if (access.write)
    write(ranges, begin, {end, number, command.queue}, access.defines);
  return Status::success();
}

/// Of the bytes, those that are looked at.
Status HazardVerifier::touchBytes(const Command &command, const Access &access,
                                  int64_t begin, int64_t bytes) {
  int64_t end = begin + bytes;
  if (!only)
    return touchRange(command, access, begin, end);
  Status status = Status::success();
  for (const ByteRange &own :
       only->bytesOf(access.ref->space, access.ref->index))
    if (status.ok() && own.begin < end && begin < own.end)
      status = touchRange(command, access, std::max(begin, own.begin),
                          std::min(end, own.end));
  return status;
}

Status HazardVerifier::touch(const Command &command, const Access &access) {
  constexpr int64_t kMaxSlices = int64_t(1) << 18;
  const BufferRef &ref = *access.ref;
  if (ref.bytes == 0 || !canBeWritten(program, ref))
    return Status::success();
  int64_t begin = program.evaluate(ref.offset, rank);
  int64_t step = iterations > 1 ? ref.offset.perIteration : 0;
  int64_t count = step ? iterations : 1;
  if (std::abs(step) == ref.bytes) // the slices make one range
    return touchBytes(command, access,
                      std::min(begin, begin + step * (count - 1)),
                      ref.bytes * count);
  if ((numSlices += step ? count : 0) > kMaxSlices)
    return errorOf(commandText(command), " of rank ", rank,
                   ": repeats move more than ", kMaxSlices, " buffers");
  for (int64_t i = 0; i < count; ++i)
    if (Status status =
            touchBytes(command, access, begin + i * step, ref.bytes);
        !status.ok())
      return status;
  return Status::success();
}

Status HazardVerifier::record(const Command &command, uint32_t number) {
  Event &event = events[number];
  if (event.isRecorded)
    return errorOf(commandText(command), " of rank ", rank, " records event ",
                   number, " a second time");
  event = {&command, scope, true, known[command.queue]};
  return Status::success();
}

Status HazardVerifier::wait(const Command &command, uint32_t number) {
  const Event &event = events[number];
  auto fail = [&](const std::string &why) {
    return errorOf(commandText(command), " of rank ", rank, " waits for event ",
                   number, ", which ", why);
  };
  if (!event.isRecorded)
    return fail("nothing recorded before");
  if (event.scope != scope)
    return fail(concat(commandText(*event.recorder), " records ",
                       event.scope ? "in " : "outside of ",
                       commandText(event.scope ? *event.scope : *scope),
                       ": an event belongs to one iteration"));
  Clock &mine = known[command.queue];
  for (uint32_t queue = 0; queue < event.clock.size(); ++queue)
    raise(mine, queue, event.clock[queue]);
  return Status::success();
}

Status HazardVerifier::visit(const Command &command) {
  if (const auto *repeat = std::get_if<Repeat>(&command.operation))
    return visitRepeat(command, *repeat);
  uint32_t queue = command.queue;
  queues[queue].push_back(&command);
  int64_t number = int64_t(queues[queue].size());
  raise(known[queue], queue, number);
  if (const auto *record = std::get_if<RecordEvent>(&command.operation))
    return this->record(command, record->event);
  if (const auto *wait = std::get_if<WaitEvent>(&command.operation))
    return this->wait(command, wait->event);
  if (std::holds_alternative<Check>(command.operation)) {
    --checksLeft[&command], --numChecksLeft;
    raise(checked, queue, number);
  }
  if (only && !only->touches(command))
    return Status::success();
  for (const Access &access : accessesOf(command)) {
    Status status = touch(command, access);
    if (status.ok() && access.write && access.ref->space == Space::Argument)
      status = checkUpdate(command, access);
    if (!status.ok())
      return status;
  }
  return Status::success();
}

Status HazardVerifier::visitRepeat(const Command &command, const Repeat &op) {
  scope = &command;
  iterations = op.count;
  for (int64_t pass = 0; pass < passesOf(op); ++pass) {
    isFurther = pass > 0;
    for (uint32_t queue = 0; queue < queues.size(); ++queue)
      raise(iterationBegin, queue, int64_t(queues[queue].size()));
    for (const Command &inner : op.body)
      if (const auto *record = std::get_if<RecordEvent>(&inner.operation);
          record && events[record->event].recorder == &inner)
        events[record->event].isRecorded = false;
    for (const Command &inner : op.body)
      if (Status status = visit(inner); !status.ok())
        return status;
  }
  scope = nullptr;
  iterations = 1;
  isFurther = false;
  return Status::success();
}

/// A step that a check refuses must leave no trace.
Status HazardVerifier::checkUpdate(const Command &command,
                                   const Access &access) const {
  const Command *missing = nullptr;
  for (uint32_t queue = 0; queue < checked.size(); ++queue)
    if (checked[queue] > at(known[command.queue], queue))
      missing = queues[queue][size_t(checked[queue] - 1)];
  if (numChecksLeft > 0)
    missing = std::ranges::find_if(checksLeft, [](const auto &entry) {
                return entry.second > 0;
              })->first;
  if (!missing)
    return Status::success();
  return errorOf(commandText(command), " of rank ", rank, " writes ",
                 bufferText(program, *access.ref, rank), " before ",
                 commandText(*missing), " has checked the step");
}

/// Every result that has a buffer of its own here is written from end to end.
Status HazardVerifier::checkResults() {
  for (const Result &result : program.results) {
    if (result.place.space != Space::Result ||
        !holds(program, result.form, rank) ||
        (only && only->bytesOf(Space::Result, result.place.index).empty()))
      continue;
    int64_t at = 0;
    for (const auto &[begin, range] :
         spaces[{Space::Result, result.place.index}]) {
      if (begin != at || !range.isDefined)
        break;
      at = range.end;
    }
    if (at < result.place.bytes)
      return errorOf("result '", result.role, "/", result.name, "' of rank ",
                     rank, " is not written from byte ", at, " of ",
                     result.place.bytes);
  }
  return Status::success();
}

void HazardVerifier::countChecks() {
  auto count = [&](const Command &command, int64_t passes) {
    if (!std::holds_alternative<Check>(command.operation))
      return;
    checksLeft[&command] = passes;
    numChecksLeft += passes;
  };
  for (const Command &command : rankProgram.commands) {
    count(command, 1);
    if (const auto *repeat = std::get_if<Repeat>(&command.operation))
      for (const Command &inner : repeat->body)
        count(inner, passesOf(*repeat));
  }
}

Status HazardVerifier::verify() {
  countChecks();
  for (const Command &command : rankProgram.commands)
    if (Status status = visit(command); !status.ok())
      return status;
  return checkResults();
}
} // namespace

Status verifyHazards(const Program &program, int64_t rank,
                     const CoordinateUses *only) {
  return HazardVerifier(program, rank, only).verify();
}

} // namespace tandem::rt
