//===- events.h - events between the queues of a rank -----------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CPU_EVENTS_H
#define TANDEM_RT_CPU_EVENTS_H

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

namespace tandem::rt::cpu {

/// The events of one rank. Waiting sleeps.
class EventBoard {
public:
  explicit EventBoard(size_t count) : recorded(count, 0) {}

  void record(uint32_t event) {
    std::lock_guard lock(mutex);
    recorded[event] = 1;
    condition.notify_all();
  }

  /// False if the step was aborted before the event was recorded.
  bool wait(uint32_t event) {
    std::unique_lock lock(mutex);
    condition.wait(lock, [&] { return aborted || recorded[event]; });
    return recorded[event];
  }

  void abort() {
    std::lock_guard lock(mutex);
    aborted = true;
    condition.notify_all();
  }

  /// Before a step, with no thread waiting.
  void reset() {
    std::lock_guard lock(mutex);
    aborted = false;
    std::fill(recorded.begin(), recorded.end(), 0);
  }

private:
  std::mutex mutex;
  std::condition_variable condition;
  std::vector<uint8_t> recorded;
  bool aborted = false;
};

} // namespace tandem::rt::cpu

#endif // TANDEM_RT_CPU_EVENTS_H
