//===- Sum.h - mean and variance of seconds ---------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_REPLAN_SUM_H
#define TANDEM_LIB_REPLAN_SUM_H

#include <algorithm>

namespace tandem::replan {

/// Numbers with their sum and the sum of their squares.
struct Sum {
  double number = 0, seconds = 0, squares = 0;
  void add(double more) {
    ++number;
    seconds += more;
    squares += more * more;
  }
  double getMean() const { return seconds / number; }
  /// By the square of the mean.
  double getRelativeVariance() const {
    double mean = getMean();
    return mean > 0 ? std::max(0.0, squares / number / (mean * mean) - 1) : 0;
  }
};

} // namespace tandem::replan

#endif // TANDEM_LIB_REPLAN_SUM_H
