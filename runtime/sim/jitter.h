//===- jitter.h - times that vary -------------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A factor of mean 1 for each run of a command, log-normal: times have no
// negative ones, and a tail. It depends on the seed and the command, not on the
// order in which commands are simulated.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_SIM_JITTER_H
#define TANDEM_RT_SIM_JITTER_H

#include "tandem_rt/simulate.h"

#include <cmath>
#include <numbers>

namespace tandem::rt::sim {

class Jitter {
public:
  /// `deviation`: the standard one, as a share of the mean.
  Jitter(uint64_t seed, double deviation)
      : seed(seed), sigma(std::sqrt(std::log1p(deviation * deviation))) {}

  double factorOf(const RankCommand &command, uint32_t iteration,
                  int64_t step) const {
    if (sigma == 0)
      return 1;
    uint64_t state = seed;
    for (uint64_t word : {uint64_t(command.rank), uint64_t(command.place),
                          uint64_t(iteration), uint64_t(step)})
      state = mix(state ^ mix(word));
    // Box and Muller.
    double radius = std::sqrt(-2 * std::log(uniform(state)));
    double angle = 2 * std::numbers::pi * uniform(mix(state));
    return std::exp(sigma * radius * std::cos(angle) - sigma * sigma / 2);
  }

private:
  /// SplitMix64.
  static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
  }
  /// In (0, 1].
  static double uniform(uint64_t x) { return double((x >> 11) + 1) * 0x1p-53; }

  const uint64_t seed;
  const double sigma;
};

} // namespace tandem::rt::sim

#endif // TANDEM_RT_SIM_JITTER_H
