//===- timelines.h - timelines made by hand ---------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CTS_TIMELINES_H
#define TANDEM_RT_CTS_TIMELINES_H

#include "cts/support.h"
#include "tandem_rt/report.h"

#include <sstream>

namespace tandem::rt::cts {

/// A timeline of `ranks` ranks with a compute and a communication queue.
/// Commands are added in the order of the listing; times are microseconds.
class TimelineBuilder {
public:
  explicit TimelineBuilder(int64_t ranks) {
    timeline.head.program = "0123";
    timeline.head.mesh = {{"data", ranks}};
    timeline.head.queues = {{QueueRole::Compute, "compute"},
                            {QueueRole::Communication, "comm"}};
    timeline.head.rankToProgram.assign(size_t(ranks), 0);
    timeline.head.rankPrograms.resize(1);
  }

  uint32_t compute(const std::string &name, uint32_t queue = kCompute) {
    return add({.name = name, .kind = "gemm", .queue = queue});
  }
  uint32_t collective(const std::string &name, uint32_t queue = kComm) {
    return add({.name = name,
                .kind = "all_reduce",
                .queue = queue,
                .bytes = 1000,
                .role = CommandRole::Communicate,
                .axes = {0}});
  }
  /// Records on one queue and waits for it on the other; returns the wait.
  uint32_t sync(uint32_t from, uint32_t to) {
    uint32_t event = numEvents++;
    add({.kind = "record_event",
         .queue = from,
         .role = CommandRole::Record,
         .event = event});
    return add({.kind = "wait_event",
                .queue = to,
                .role = CommandRole::Wait,
                .event = event});
  }
  void beginRepeat(int64_t count) {
    repeat =
        add({.kind = "repeat", .role = CommandRole::Repeat, .count = count});
  }
  void endRepeat() { repeat = -1; }

  /// A command ran, on one rank.
  void ran(int64_t rank, uint32_t command, int64_t begin, int64_t end,
           int64_t step = 1, uint32_t iteration = 0) {
    timeline.events.push_back(
        {rank, command, iteration, step, 1000 * begin, 1000 * end});
  }
  void ranOnAll(uint32_t command, int64_t begin, int64_t end,
                int64_t step = 1) {
    for (int64_t rank = 0; rank < timeline.head.numRanks(); ++rank)
      ran(rank, command, begin, end, step);
  }

  Timeline timeline;

private:
  uint32_t add(TimelineCommand command) {
    std::vector<TimelineCommand> &listing = timeline.head.rankPrograms[0];
    command.id = uint32_t(listing.size());
    command.source = "model.py:" + std::to_string(command.id);
    command.repeat = repeat;
    listing.push_back(command);
    return command.id;
  }

  int64_t repeat = -1;
  uint32_t numEvents = 0;
};

inline std::string textOf(const Timeline &timeline) {
  std::ostringstream text;
  writeTimeline(timeline, text);
  return text.str();
}

inline Expected<Timeline> parse(const std::string &text) {
  std::istringstream in(text);
  return parseTimeline(in, "t.json");
}

} // namespace tandem::rt::cts

#endif // TANDEM_RT_CTS_TIMELINES_H
