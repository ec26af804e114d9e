//===- listing.h - commands as queues and groups see them -------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a simulation looks up of a rank program, made once.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_SIM_LISTING_H
#define TANDEM_RT_SIM_LISTING_H

#include "tandem_rt/timeline.h"

#include <unordered_map>

namespace tandem::rt::sim {

/// A part of a queue's commands: each queue repeats its own part of a body.
struct Part {
  std::vector<uint32_t> places = {};
  int64_t count = 1;
};
using Stream = std::vector<Part>; ///< No part is empty.

class Listing {
public:
  Listing(const std::vector<TimelineCommand> &commands, size_t numQueues);

  const std::vector<TimelineCommand> &commands;
  std::vector<Stream> queues = {};
  size_t numEvents = 0;
  /// Of all queues, each iteration for itself.
  int64_t numCommands = 0;

  uint32_t eventOf(const TimelineCommand &command) const {
    return events.at(command.event);
  }
  /// How often the event of a wait has been recorded when it ends.
  uint32_t numRecords(const TimelineCommand &wait, uint32_t iteration) const {
    return repeats[eventOf(wait)] ? iteration + 1 : 1;
  }

private:
  std::unordered_map<uint32_t, uint32_t> events;
  std::vector<bool> repeats; ///< By event: recorded in a Repeat.
};

/// Where the commands of a queue have come to.
class Cursor {
public:
  explicit Cursor(const Stream &stream) : stream(&stream) {}

  bool isAtEnd() const { return part == stream->size(); }
  uint32_t place() const { return (*stream)[part].places[at]; }
  uint32_t iteration() const { return turn; }
  void next();

private:
  const Stream *stream;
  size_t part = 0, at = 0;
  uint32_t turn = 0;
};

} // namespace tandem::rt::sim

#endif // TANDEM_RT_SIM_LISTING_H
