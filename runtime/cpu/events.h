//===- events.h - events between the queues of a rank -----------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CPU_EVENTS_H
#define TANDEM_RT_CPU_EVENTS_H

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

namespace tandem::rt::cpu {

/// The events of one rank. Waiting sleeps. As one queue records an event in all
/// iterations, one after the other, an event is the number of those that did.
class EventBoard {
public:
  using Clock = std::chrono::steady_clock;

  /// `keepsTimes`: when an event was recorded is asked for.
  explicit EventBoard(size_t count, bool keepsTimes = false)
      : recorded(count), times(keepsTimes ? count : 0) {}

  void record(uint32_t event, int64_t iteration) {
    if (!times.empty())
      times[event].store(Clock::now(), std::memory_order_relaxed);
    std::lock_guard lock(mutex);
    recorded[event].store(iteration + 1, std::memory_order_release);
    condition.notify_all();
  }

  /// False if the step was aborted before the event was recorded.
  bool wait(uint32_t event, int64_t iteration) {
    if (isRecorded(event, iteration))
      return true; // without the lock
    std::unique_lock lock(mutex);
    condition.wait(lock,
                   [&] { return aborted || isRecorded(event, iteration); });
    return isRecorded(event, iteration);
  }

  /// Of the last iteration that recorded it.
  Clock::time_point recordedAt(uint32_t event) const {
    return times[event].load(std::memory_order_relaxed);
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
    for (std::atomic<int64_t> &count : recorded)
      count.store(0, std::memory_order_relaxed);
  }

private:
  bool isRecorded(uint32_t event, int64_t iteration) const {
    return recorded[event].load(std::memory_order_acquire) > iteration;
  }

  std::mutex mutex;
  std::condition_variable condition;
  std::vector<std::atomic<int64_t>> recorded;
  std::vector<std::atomic<Clock::time_point>> times;
  bool aborted = false;
};

} // namespace tandem::rt::cpu

#endif // TANDEM_RT_CPU_EVENTS_H
