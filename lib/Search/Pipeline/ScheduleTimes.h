//===- ScheduleTimes.h - the times of a schedule's operations ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_PIPELINE_SCHEDULETIMES_H
#define TANDEM_LIB_SEARCH_PIPELINE_SCHEDULETIMES_H

#include "ScheduleModel.h"

namespace tandem::pipeline::schedule {

/// Where an operation stands.
struct Spot {
  unsigned machine = 0, index = 0;
};

/// Times rows, again and again without new memory.
class Timer {
public:
  explicit Timer(const Model &model);

  /// False if the rows wait for each other. They are complete; what they hold
  /// is not looked at.
  bool run(const Rows &rows);

  /// With noise, and what follows, means over its samples.
  double getCost() const { return cost; }
  /// The mean over machines of what `getCost` is the largest of.
  double getMean() const { return mean; }
  /// In one of the samples, as are critical operations.
  double getEnd(unsigned operation) const { return ends[operation]; }
  /// The operations that begin when the one before on their machine ends, on a
  /// path that determines the cost.
  void findCritical(std::vector<Spot> &spots) const;

private:
  static constexpr unsigned kNone = ~0u;
  bool runOnce(const Rows &rows);
  void advance(const Rows &rows, unsigned machine);
  void wake(unsigned operation);

  const Model &model;
  double cost = 0, mean = 0;
  /// Of the last sample, which is another one after each run.
  double costOfLast = 0, meanOfLast = 0;
  size_t last = 0;
  std::vector<double> ends, isFree;
  /// The operation that is the last reason for the begin of each one.
  std::vector<unsigned> causes;
  std::vector<Spot> spots;
  std::vector<unsigned> counts, positions, previous;
  /// Machines that wait for an operation, as lists.
  std::vector<unsigned> firstWaiting, nextWaiting, ready;
  std::vector<char> isDone;
};

/// Whether no machine holds more than its limit.
bool fitsLimits(const Model &model, const Rows &rows);
bool fitsLimit(const Model &model, const std::vector<unsigned> &row,
               double limit);

} // namespace tandem::pipeline::schedule

#endif // TANDEM_LIB_SEARCH_PIPELINE_SCHEDULETIMES_H
