//===- SchedulePace.h - when microbatches enter a schedule ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_PIPELINE_SCHEDULEPACE_H
#define TANDEM_LIB_SEARCH_PIPELINE_SCHEDULEPACE_H

#include "ScheduleAnneal.h"

namespace tandem::pipeline::schedule {

/// How a list is made of a long step, which repeats what it does: microbatches
/// enter in even steps, so that a limit is not used up by forward passes. Times
/// are in periods: what the busiest machine computes of a microbatch.
struct Pace {
  /// Between microbatches, behind those that enter at once.
  double step = 1;
  unsigned atOnce = 0;
  /// Whether all forward passes have a time, and not those without needs alone:
  /// they follow each other in `stretch` times what they take.
  bool isOfAll = false;
  double stretch = 1;
  /// Whether these times are the keys of a list, or those of a rule.
  bool isByTime = false;
  unsigned rule = 0;
  /// Of `ListScheduler`.
  double wait = 0, mostIdle = 0;

  static Pace make(unsigned numPoints, unsigned numMicrobatches,
                   unsigned numRules, Random &random);
  /// One that is near.
  Pace vary(Random &random) const;
};

/// Seconds.
double getPeriod(const Model &model);

/// The times before which forward passes do not begin, by operation.
std::vector<double> makeReleases(const Model &model, const Pace &pace);

} // namespace tandem::pipeline::schedule

#endif // TANDEM_LIB_SEARCH_PIPELINE_SCHEDULEPACE_H
