//===- ScheduleList.h - list scheduling of a schedule -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_PIPELINE_SCHEDULELIST_H
#define TANDEM_LIB_SEARCH_PIPELINE_SCHEDULELIST_H

#include "ScheduleModel.h"
#include <limits>

namespace tandem::pipeline::schedule {

/// Runs operations in time: whenever a machine is free, the one with the least
/// key of those that can begin.
class ListScheduler {
public:
  explicit ListScheduler(const Model &model);

  /// The rows. `keys` has one of each operation. A machine waits for an
  /// operation with a smaller key that begins within `wait` times the seconds
  /// of the one that could begin now, until it was idle for `mostIdle` seconds
  /// behind its begin. There are rows for any keys if one microbatch fits
  /// alone. No operation begins before its time in `releases`.
  Rows run(const std::vector<double> &keys, double wait, double mostIdle,
           const std::vector<double> *releases = nullptr);
  /// Letters that it looked at in all runs.
  uint64_t getNumVisited() const { return numVisited; }

private:
  static constexpr unsigned kNone = ~0u;
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  struct Candidate {
    unsigned letter = kNone;
    double begin = kNever;
  };
  template <typename Visit>
  void forEachNext(unsigned machine, const std::vector<double> &keys,
                   const Visit &visit);
  void choose(unsigned machine, const std::vector<double> &keys, double wait);
  double getReady(const Letter &letter, unsigned index) const;
  bool isSafe(unsigned number);
  bool drains(unsigned number);
  void run(unsigned number, double begin);

  const Model &model;
  std::vector<unsigned> counts;
  std::vector<double> ends, isFree, held, idle;
  double mostIdle = 0;
  /// What each machine would begin next.
  std::vector<Candidate> candidates;
  std::vector<char> isStale;
  std::vector<double> releases;
  uint64_t numVisited = 0;
};

} // namespace tandem::pipeline::schedule

#endif // TANDEM_LIB_SEARCH_PIPELINE_SCHEDULELIST_H
