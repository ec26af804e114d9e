//===- hazards.cpp - queues, events and bytes -----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/access.h"
#include "core/text.h"
#include "core/verify.h"

#include <array>
#include <map>
#include <optional>

namespace tandem::rt {

namespace {
/// Per queue, how many of its commands are known to be done.
using Clock = std::array<int64_t, kNumQueues>;

/// The last accesses to a range of bytes, per queue: 1 + the command's number
/// in its queue, 0 if there is none. The last one is enough, as commands of a
/// queue are ordered.
struct Range {
  int64_t end = 0;
  Clock reads{};
  Clock writes{};
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
  ranges.emplace(at, tail);
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
      ranges.emplace(at, Range{next, {}, {}});
    if (it == ranges.end() || it->first >= end)
      return;
    at = it->second.end;
    ++it;
  }
}

/// Walks the commands of a rank in their listed order, and keeps for each
/// queue what it knows to be done.
class HazardVerifier {
public:
  HazardVerifier(const Program &program, int64_t rank)
      : program(program), rank(rank),
        rankProgram(program.rankPrograms[program.rankToProgram[size_t(rank)]]),
        recorded(rankProgram.numEvents) {}

  Status verify();

private:
  Status visit(const Command &command);
  Status touch(const Command &command, const Access &access);
  Status checkRange(const Command &command, const Access &access,
                    const Range &range);
  Status conflict(const Command &command, const Access &access, Queue queue,
                  int64_t number, bool otherWrites);
  Status checkResults();
  Status checkUpdate(const Command &command, const Access &access);
  bool startsUnwritten(Space space) const {
    return space == Space::Arena || space == Space::Result;
  }

  const Program &program;
  int64_t rank;
  const RankProgram &rankProgram;
  std::array<Clock, kNumQueues> known{};
  std::array<std::vector<const Command *>, kNumQueues> queues;
  std::vector<std::optional<Clock>> recorded;
  /// Every CheckFinite: 1 + its number in its queue once it was visited.
  std::map<const Command *, int64_t> checks;
  std::map<std::pair<Space, uint32_t>, Ranges> spaces;
};

Status HazardVerifier::conflict(const Command &command, const Access &access,
                                Queue queue, int64_t number, bool otherWrites) {
  const Command &other = *queues[size_t(queue)][size_t(number - 1)];
  return errorOf(commandText(command), " of rank ", rank,
                 access.write ? " writes " : " reads ",
                 bufferText(program, *access.ref, rank), ", which ",
                 commandText(other), otherWrites ? " writes" : " reads",
                 " on the other queue, with no event between them");
}

Status HazardVerifier::checkRange(const Command &command, const Access &access,
                                  const Range &range) {
  size_t mine = size_t(command.queue), theirs = 1 - mine;
  if (range.writes[theirs] > known[mine][theirs])
    return conflict(command, access, Queue(theirs), range.writes[theirs], true);
  if (access.write && range.reads[theirs] > known[mine][theirs])
    return conflict(command, access, Queue(theirs), range.reads[theirs], false);
  bool written = range.writes[0] || range.writes[1];
  if (!access.write && !written && startsUnwritten(access.ref->space))
    return errorOf(commandText(command), " of rank ", rank, " reads ",
                   bufferText(program, *access.ref, rank),
                   ", which nothing wrote before");
  return Status::success();
}

Status HazardVerifier::touch(const Command &command, const Access &access) {
  const BufferRef &ref = *access.ref;
  if (ref.space == Space::Constant || ref.bytes == 0)
    return Status::success();
  int64_t begin = program.evaluate(ref.offset, rank), end = begin + ref.bytes;
  Ranges &ranges = spaces[{ref.space, ref.index}];
  cover(ranges, begin, end);
  size_t queue = size_t(command.queue);
  auto first = ranges.find(begin);
  for (auto it = first; it != ranges.end() && it->first < end; ++it) {
    Range &range = it->second;
    if (Status status = checkRange(command, access, range); !status.ok())
      return status;
    Clock &last = access.write ? range.writes : range.reads;
    last[queue] = int64_t(queues[queue].size());
  }
  if (!access.write)
    return Status::success();
  // A write comes after all that was ordered before it: what was known of the
  // pieces is now one fact.
  Range whole{end, {}, {}};
  whole.writes[queue] = int64_t(queues[queue].size());
  ranges.erase(first, ranges.lower_bound(end));
  ranges.emplace(begin, whole);
  return Status::success();
}

Status HazardVerifier::visit(const Command &command) {
  size_t queue = size_t(command.queue);
  queues[queue].push_back(&command);
  known[queue][queue] = int64_t(queues[queue].size());
  if (const auto *record = std::get_if<RecordEvent>(&command.operation)) {
    if (recorded[record->event])
      return errorOf(commandText(command), " of rank ", rank, " records event ",
                     record->event, " a second time");
    recorded[record->event] = known[queue];
    return Status::success();
  }
  if (const auto *wait = std::get_if<WaitEvent>(&command.operation)) {
    if (!recorded[wait->event])
      return errorOf(commandText(command), " of rank ", rank,
                     " waits for event ", wait->event,
                     ", which nothing recorded before");
    for (size_t q = 0; q < kNumQueues; ++q)
      known[queue][q] = std::max(known[queue][q], (*recorded[wait->event])[q]);
    return Status::success();
  }
  if (std::holds_alternative<CheckFinite>(command.operation))
    checks[&command] = known[queue][queue];
  for (const Access &access : accessesOf(command.operation)) {
    Status status = touch(command, access);
    if (status.ok() && access.write && access.ref->space == Space::Argument)
      status = checkUpdate(command, access);
    if (!status.ok())
      return status;
  }
  return Status::success();
}

/// A step that a check refuses must leave no trace.
Status HazardVerifier::checkUpdate(const Command &command,
                                   const Access &access) {
  for (const auto &[check, number] : checks)
    if (number == 0 ||
        number > known[size_t(command.queue)][size_t(check->queue)])
      return errorOf(commandText(command), " of rank ", rank, " writes ",
                     bufferText(program, *access.ref, rank), " before ",
                     commandText(*check), " has checked the step");
  return Status::success();
}

/// Every result that has a buffer of its own is written from end to end.
Status HazardVerifier::checkResults() {
  for (const Result &result : program.results) {
    if (result.place.space != Space::Result)
      continue;
    int64_t at = 0;
    for (const auto &[begin, range] :
         spaces[{Space::Result, result.place.index}]) {
      if (begin != at)
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

Status HazardVerifier::verify() {
  for (const Command &command : rankProgram.commands)
    if (std::holds_alternative<CheckFinite>(command.operation))
      checks[&command] = 0;
  for (const Command &command : rankProgram.commands)
    if (Status status = visit(command); !status.ok())
      return status;
  return checkResults();
}
} // namespace

Status verifyHazards(const Program &program, int64_t rank) {
  return HazardVerifier(program, rank).verify();
}

} // namespace tandem::rt
