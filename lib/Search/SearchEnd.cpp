//===- SearchEnd.cpp - time limits of a search ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Search/SearchEnd.h"
#include <algorithm>
#include <limits>

using namespace tandem::search;

bool SearchEnd::proceeds(double done, double best, double bound) {
  if (!isOver() && progress && !progress(done, best, bound))
    isEnded = true;
  return !isEnded;
}

bool SearchEnd::isOver() {
  if (!isEnded && timeLimit > 0 && getSecondsLeft() <= 0)
    isEnded = true;
  return isEnded;
}

double SearchEnd::getSecondsLeft() const {
  if (timeLimit <= 0)
    return std::numeric_limits<double>::infinity();
  std::chrono::duration<double> spent = Clock::now() - begin;
  return std::max(timeLimit - spent.count(), 0.0);
}
