//===- Noise.h - samples of noisy durations ---------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_PIPELINE_NOISE_H
#define TANDEM_LIB_SEARCH_PIPELINE_NOISE_H

#include "tandem/Search/Pipeline/OrderSearch.h"

namespace tandem::pipeline {

/// How many times as long as in the mean an action takes in a sample: numbers
/// of a log-normal distribution with mean 1. They depend on nothing but what is
/// given.
double getNoiseFactor(const Noise &noise, uint64_t sample,
                      const orders::Action &action);

} // namespace tandem::pipeline

#endif // TANDEM_LIB_SEARCH_PIPELINE_NOISE_H
