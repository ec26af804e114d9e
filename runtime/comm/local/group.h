//===- group.h - shared state of a group ------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_COMM_LOCAL_GROUP_H
#define TANDEM_RT_COMM_LOCAL_GROUP_H

#include "core/collective.h"

#include <condition_variable>
#include <mutex>

namespace tandem::rt::local {

/// A barrier that sleeps, and that an error on another rank can open for good.
class Barrier {
public:
  explicit Barrier(size_t members) : members(members) {}

  /// True when all members have come, false once aborted. The last one to come
  /// runs `completion` before it wakes the others.
  template <typename Completion> bool wait(Completion completion) {
    std::unique_lock lock(mutex);
    if (aborted)
      return false;
    size_t mine = generation;
    if (++arrived == members) {
      completion();
      arrived = 0;
      ++generation;
      condition.notify_all();
      return true;
    }
    condition.wait(lock, [&] { return aborted || generation != mine; });
    // A barrier that all members reached stays passed: an abort later on must
    // not make some of them believe that they were alone.
    return generation != mine;
  }
  bool wait() {
    return wait([] {});
  }

  void abort() {
    std::lock_guard lock(mutex);
    aborted = true;
    condition.notify_all();
  }

  void reset() {
    std::lock_guard lock(mutex);
    aborted = false;
    arrived = 0;
  }

private:
  std::mutex mutex;
  std::condition_variable condition;
  const size_t members;
  size_t arrived = 0;
  size_t generation = 0;
  bool aborted = false;
};

/// Posts are written before the first barrier of a collective and read until
/// the last one.
struct Group {
  explicit Group(size_t members) : posts(members), barrier(members) {}

  /// Once all posts are there: do they agree? A small collective is done here,
  /// at once for all members, as waking them costs more than the work.
  void meet();

  Posts posts;
  Barrier barrier;
  /// Written by meet(), read by all before they come to the next barrier.
  Status agreement;
  bool finished = false;
};

/// Does one member's share of a collective: its destination, but for an
/// all-reduce its slice of everyone's.
void transfer(const Posts &posts, size_t member);

} // namespace tandem::rt::local

#endif // TANDEM_RT_COMM_LOCAL_GROUP_H
