//===- Deadline.h - when a search of pipelines ends -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SEARCH_PIPELINE_DEADLINE_H
#define TANDEM_SEARCH_PIPELINE_DEADLINE_H

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

namespace tandem::pipeline {

/// A search that has an answer returns the best one so far once this is over:
/// after some seconds, or when its caller says so. Counts from when it is made.
class Deadline {
public:
  /// 0 seconds are no limit. `ends` may be empty.
  Deadline(double seconds = 0, std::function<bool()> ends = {})
      : seconds(seconds), ends(std::move(ends)) {}

  double getPassed() const {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  /// Whether it is, so many seconds `later`.
  bool isOver(double later = 0) const {
    return (seconds > 0 && getPassed() + later > seconds) || (ends && ends());
  }

  /// From now on, for half of the seconds that are left.
  Deadline getHalf() const {
    constexpr double kLeast = 1e-3;
    return {seconds > 0 ? std::max(kLeast, (seconds - getPassed()) / 2) : 0,
            ends};
  }

private:
  using Clock = std::chrono::steady_clock;
  double seconds;
  std::function<bool()> ends;
  Clock::time_point begin = Clock::now();
};

} // namespace tandem::pipeline

#endif // TANDEM_SEARCH_PIPELINE_DEADLINE_H
