//===- listing.cpp - commands as queues and groups see them ---------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "sim/listing.h"

namespace tandem::rt::sim {

Listing::Listing(const std::vector<TimelineCommand> &commands, size_t numQueues)
    : commands(commands), queues(numQueues) {
  int64_t count = 1;
  std::vector<bool> isOpen(numQueues);
  for (uint32_t place = 0; place < commands.size(); ++place) {
    const TimelineCommand &command = commands[place];
    if (command.role == CommandRole::Record ||
        command.role == CommandRole::Wait) {
      auto [found, isNew] =
          events.try_emplace(command.event, uint32_t(numEvents));
      if (isNew)
        ++numEvents, repeats.push_back(false);
      if (command.role == CommandRole::Record)
        repeats[found->second] = command.repeat >= 0;
    }
    // What stands outside of bodies is done once, between them.
    if (command.role == CommandRole::Repeat ||
        (command.repeat < 0 && count != 1)) {
      isOpen.assign(numQueues, false);
      count = command.role == CommandRole::Repeat ? command.count : 1;
    }
    if (command.role == CommandRole::Repeat)
      continue;
    numCommands += count;
    Stream &stream = queues[command.queue];
    if (!isOpen[command.queue])
      stream.push_back({.count = count});
    isOpen[command.queue] = true;
    stream.back().places.push_back(place);
  }
}

void Cursor::next() {
  const Part &own = (*stream)[part];
  if (++at < own.places.size())
    return;
  at = 0;
  if (++turn < own.count)
    return;
  turn = 0, ++part;
}

} // namespace tandem::rt::sim
