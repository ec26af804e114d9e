//===- SearchEnd.h - time limits of a search --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SEARCH_SEARCHEND_H
#define TANDEM_SEARCH_SEARCHEND_H

#include "tandem/Search/Search.h"
#include <atomic>
#include <chrono>

namespace tandem::search {

/// A search ends when its limit of time is over, or when who watches it has
/// enough; from then on all of its parts are told so, on any thread. What takes
/// long asks now and then, and leaves what it has.
class SearchEnd {
public:
  using Progress = decltype(SearchOptions::progress);

  /// The time begins here; `timeLimit` of 0: there is no limit. `progress` may
  /// be empty.
  explicit SearchEnd(double timeLimit, Progress progress = {})
      : begin(Clock::now()), timeLimit(timeLimit),
        progress(std::move(progress)) {}
  explicit SearchEnd(const SearchOptions &options)
      : SearchEnd(options.timeLimit, options.progress) {}

  /// Tells who watches how far the search is, as in `SearchOptions`; false once
  /// it has to end. For the thread that searches.
  bool proceeds(double done = 0, double best = 0, double bound = 0);
  /// Whether it has to end, without asking who watches. For all threads.
  bool isOver();
  /// Of the limit; none below 0, and infinity without a limit.
  double getSecondsLeft() const;

private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin;
  double timeLimit;
  Progress progress;
  std::atomic<bool> isEnded = false;
};

} // namespace tandem::search

#endif // TANDEM_SEARCH_SEARCHEND_H
