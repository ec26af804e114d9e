//===- ScheduleAnneal.h - improves a schedule by moves ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_PIPELINE_SCHEDULEANNEAL_H
#define TANDEM_LIB_SEARCH_PIPELINE_SCHEDULEANNEAL_H

#include "ScheduleTimes.h"

namespace tandem::pipeline::schedule {

/// SplitMix64: the same numbers on every machine.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}
  uint64_t next() {
    uint64_t value = state += 0x9e3779b97f4a7c15;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
  }
  unsigned below(uint64_t number) { return next() % number; }
  double share() { return double(next() >> 11) * 0x1p-53; }

private:
  uint64_t state;
};

struct Scored {
  Rows rows;
  double cost = 0;
};

/// Moves letters and whole microbatches within their machines by simulated
/// annealing, where
/// that may shorten the path that determines the cost. Rows that do not fit
/// are left out.
class Annealer {
public:
  Annealer(const Model &model, uint64_t seed);

  /// The best rows that `numMoves` moves find from `start`, at temperatures
  /// from `heat` times the mean seconds of an operation down. Ends at a cost of
  /// `goal`.
  Scored run(const Scored &start, uint64_t numMoves, double heat, double goal,
             const std::function<bool()> &ends);

private:
  bool change(Rows &rows, Spot spot);
  bool move(std::vector<unsigned> &row, unsigned from, unsigned to);
  void moveWhole(std::vector<unsigned> &row, unsigned index);
  Spot pick(const Rows &rows);

  const Model &model;
  Timer timer;
  Random random;
  double mean = 0;
  std::vector<Spot> critical;
  std::vector<unsigned> saved;
};

} // namespace tandem::pipeline::schedule

#endif // TANDEM_LIB_SEARCH_PIPELINE_SCHEDULEANNEAL_H
