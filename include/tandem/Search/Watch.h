//===- Watch.h - progress and Ctrl-C of a search ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How far a long search is, on a terminal, and Ctrl-C, which ends the search
// with the best plan so far. For tools: a library leaves signals alone unless
// it is told to take them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SEARCH_WATCH_H
#define TANDEM_SEARCH_WATCH_H

#include <chrono>
#include <functional>
#include <limits>

namespace tandem::search {

/// While one lives, the first interrupt (SIGINT) is remembered, and a later one
/// ends the process. One within another changes nothing. Not for several
/// threads at once.
class InterruptGuard {
public:
  /// Interrupts so soon after the first, in s, are the same: `timeout`, and
  /// whoever else passes Ctrl-C on to a process of its group, sends it twice.
  static constexpr double kSameInterrupt = 0.5;

  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard &) = delete;
  InterruptGuard &operator=(const InterruptGuard &) = delete;

  /// Whether there was one since the last guard was made that stands in none.
  static bool isInterrupted();

private:
  struct OldAction;
  /// Null within another one.
  OldAction *old = nullptr;
};

/// Shows progress of one search on standard error where that is a terminal: at
/// most once a second, and not in the first one. What was reached stays: a
/// search that looks elsewhere for a while may report less.
class Watch {
public:
  /// `ends` is asked whether to end the search; may be empty.
  explicit Watch(std::function<bool()> ends = {});
  /// Ends the line that was begun.
  ~Watch();
  Watch(const Watch &) = delete;
  Watch &operator=(const Watch &) = delete;

  /// For `SearchOptions::progress`; false ends the search.
  bool show(double done, double best, double bound);

private:
  using Clock = std::chrono::steady_clock;
  std::function<bool()> ends;
  bool isTerminal, isShown = false;
  double most = 0, least = std::numeric_limits<double>::infinity(), highest = 0;
  Clock::time_point last = Clock::now();
};

} // namespace tandem::search

#endif // TANDEM_SEARCH_WATCH_H
