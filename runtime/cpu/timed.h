//===- timed.h - commands that sleep in place of computing ------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CPU_TIMED_H
#define TANDEM_RT_CPU_TIMED_H

#include "cpu/task.h"

#include <chrono>

namespace tandem::rt::cpu {

/// When the next command of a queue could begin, if sleeping were exact: a
/// sleep that ends late makes the next one shorter. Of one thread.
class QueueClock {
public:
  using Time = std::chrono::steady_clock::time_point;

  /// At the begin of a step, on the thread that runs it: asks for timers
  /// without slack, until finish(), which waits for the last command's end.
  void start();
  void finish();

  /// Until so long after the last command could have ended.
  void sleep(std::chrono::nanoseconds duration);
  /// No command begins before.
  void advanceTo(Time time) { free = std::max(free, time); }

private:
  Time free = {};
  int slackBefore = 0;
};

/// As makeTask(), but a computing command sleeps for `seconds`. Collectives
/// are done, of whatever their buffers hold; a check passes.
Expected<std::unique_ptr<Task>> makeTimedTask(const TaskContext &context,
                                              const Command &command,
                                              QueueClock &clock,
                                              double seconds);

} // namespace tandem::rt::cpu

#endif // TANDEM_RT_CPU_TIMED_H
