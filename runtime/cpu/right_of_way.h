//===- right_of_way.h - sums behind transfers -------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CPU_RIGHTOFWAY_H
#define TANDEM_RT_CPU_RIGHTOFWAY_H

#include <condition_variable>
#include <mutex>

namespace tandem::rt::cpu {

/// Lets transfers of the ranks of a process go before collectives of queues
/// that yield: one begins when none moves. A transfer that moves waits for
/// nothing but its other end, and ends by an error as well, so neither waits
/// for ever. Thread-safe.
class RightOfWay {
public:
  void beginTransfer() {
    std::lock_guard lock(mutex);
    ++moving;
  }
  void endTransfer() {
    std::lock_guard lock(mutex);
    if (--moving == 0)
      free.notify_all();
  }
  /// Blocks, asleep.
  void await() {
    std::unique_lock lock(mutex);
    free.wait(lock, [this] { return moving == 0; });
  }

private:
  std::mutex mutex;
  std::condition_variable free;
  int moving = 0;
};

} // namespace tandem::rt::cpu

#endif // TANDEM_RT_CPU_RIGHTOFWAY_H
