//===- queues.h - the queues of a rank -----------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CPU_QUEUES_H
#define TANDEM_RT_CPU_QUEUES_H

#include "cpu/timed.h"
#include "tandem_rt/trace.h"

#include <algorithm>
#include <map>

namespace tandem::rt::cpu {

struct QueueEntry {
  const Command *command;
  uint32_t index; ///< In the listing of the rank program.
  std::unique_ptr<Task> task;
};

/// The part of one queue in a Repeat, or what lies between two of them.
struct Segment {
  int64_t count = 1;
  std::vector<QueueEntry> entries = {};
};

/// What one thread runs, one command after the other.
struct QueueState {
  std::string name = {};
  int threads = 1; ///< Cores that libraries may use.
  std::vector<Segment> segments = {};
  /// Where commands take given times.
  std::unique_ptr<QueueClock> clock = {};
  /// How many commands the last step has begun, each iteration counted.
  int64_t begun = 0;
  std::vector<TraceEvent> timeline = {};
};

/// How a rank's commands become queues.
struct QueuePlan {
  /// All queues as one, in the order of the listing: in that order no command
  /// waits for a later one.
  bool isOne = false;
  /// Seconds by command id that computing commands take; null: their own.
  const std::map<uint32_t, double> *seconds = nullptr;
};

Expected<std::vector<QueueState>> makeQueues(const TaskContext &context,
                                             const RankProgram &rankProgram,
                                             const QueuePlan &plan);

/// Calls `visit` with the commands of a queue that were begun.
template <typename Visit>
void forEachBegun(const QueueState &queue, Visit visit) {
  int64_t left = queue.begun;
  for (const Segment &segment : queue.segments) {
    int64_t size = int64_t(segment.entries.size());
    // The first iteration has begun all that later ones have.
    for (int64_t i = 0; i < std::min(left, size); ++i)
      visit(*segment.entries[size_t(i)].command);
    left -= std::min(left, size * segment.count);
  }
}

} // namespace tandem::rt::cpu

#endif // TANDEM_RT_CPU_QUEUES_H
