//===- timeline.cpp - a Program's timeline --------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem_rt/timeline.h"
#include "tandem_rt/held.h"

#include <algorithm>

namespace tandem::rt {

CommandRole roleOf(const Command &command) {
  const Operation &operation = command.operation;
  if (std::holds_alternative<RecordEvent>(operation))
    return CommandRole::Record;
  if (std::holds_alternative<WaitEvent>(operation))
    return CommandRole::Wait;
  if (std::holds_alternative<Repeat>(operation))
    return CommandRole::Repeat;
  const auto *check = std::get_if<Check>(&operation);
  bool isCombined = check && !check->axes.empty();
  return isCombined || std::holds_alternative<Collective>(operation) ||
                 std::holds_alternative<Transfer>(operation)
             ? CommandRole::Communicate
             : CommandRole::Compute;
}

Activity activityOf(CommandRole command, QueueRole queue) {
  if (command == CommandRole::Communicate)
    return Activity::Communication;
  if (command != CommandRole::Compute)
    return Activity::None;
  switch (queue) {
  case QueueRole::Compute:
    return Activity::Computation;
  case QueueRole::Communication:
    return Activity::Communication;
  case QueueRole::Copy:
    return Activity::Copy;
  }
  return Activity::None;
}

namespace {
TimelineCommand describe(const Command &command) {
  TimelineCommand result{.id = command.id,
                         .name = command.name,
                         .kind =
                             std::string(Program::kindName(command.operation)),
                         .source = command.location,
                         .queue = command.queue,
                         .bytes = command.bytes,
                         .flops = command.flops,
                         .stage = command.stage,
                         .strand = command.strand,
                         .role = roleOf(command)};
  if (const auto *record = std::get_if<RecordEvent>(&command.operation))
    result.event = record->event;
  if (const auto *wait = std::get_if<WaitEvent>(&command.operation))
    result.event = wait->event;
  if (const auto *collective = std::get_if<Collective>(&command.operation))
    result.axes = collective->axes;
  if (const auto *check = std::get_if<Check>(&command.operation))
    result.axes = check->axes;
  if (const auto *transfer = std::get_if<Transfer>(&command.operation)) {
    result.axes = {transfer->axis};
    result.from = transfer->from, result.to = transfer->to;
  }
  if (const auto *repeat = std::get_if<Repeat>(&command.operation))
    result.count = repeat->count;
  return result;
}

/// In the order of RankProgram::listing().
std::vector<TimelineCommand> describe(const RankProgram &program) {
  std::vector<TimelineCommand> listing;
  for (const Command &command : program.commands) {
    listing.push_back(describe(command));
    if (const auto *repeat = std::get_if<Repeat>(&command.operation))
      for (const Command &inner : repeat->body) {
        listing.push_back(describe(inner));
        listing.back().repeat = command.id;
      }
  }
  return listing;
}
} // namespace

char actionOf(const TimelineCommand &command) {
  constexpr std::string_view kDigits = "0123456789";
  std::string_view name = command.name;
  size_t letter = name.find_first_not_of(kDigits);
  if (letter == 0 || letter == name.npos ||
      std::string_view("FIBWSU").find(name[letter]) == std::string_view::npos)
    return 0;
  size_t end = name.find_first_not_of(kDigits, letter + 1);
  return end == name.npos || name[end] == ' ' ? name[letter] : 0;
}

TimelineHead headOf(const Program &program, const std::string &hash) {
  TimelineHead head{.program = hash,
                    .mesh = program.mesh,
                    .queues = program.queues,
                    .rankToProgram = program.rankToProgram};
  for (const RankProgram &rankProgram : program.rankPrograms) {
    auto number = uint32_t(head.rankPrograms.size());
    int64_t rank = std::ranges::find(program.rankToProgram, number) -
                   program.rankToProgram.begin();
    head.rankPrograms.push_back(describe(rankProgram));
    if (rank == int64_t(program.rankToProgram.size())) {
      head.memory.emplace_back(); // no rank runs it
      continue;
    }
    head.memory.push_back(
        {heldBytes(program, rank), mostInArenas(program, rank)});
  }
  return head;
}

} // namespace tandem::rt
