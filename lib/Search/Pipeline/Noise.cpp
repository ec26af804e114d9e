//===- Noise.cpp - samples of noisy durations -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Noise.h"
#include "ScheduleAnneal.h"
#include <cmath>
#include <numbers>

using namespace tandem::pipeline;

double tandem::pipeline::getNoiseFactor(const Noise &noise, uint64_t sample,
                                        const orders::Action &action) {
  uint64_t state = noise.seed;
  for (uint64_t part : {sample, uint64_t(action.section), uint64_t(action.kind),
                        uint64_t(action.microbatch)})
    state = schedule::Random(state ^ part).next();
  schedule::Random random(state);
  // Box and Muller's numbers of a normal distribution.
  double radius = std::sqrt(-2 * std::log(1 - random.share()));
  double normal = radius * std::cos(2 * std::numbers::pi * random.share());
  double variance = std::log1p(noise.spread * noise.spread);
  return std::exp(std::sqrt(variance) * normal - variance / 2);
}
