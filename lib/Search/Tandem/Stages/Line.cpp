//===- Line.cpp - a time line that grows stage by stage -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tandem/Stages/Line.h"

using namespace tandem::cost;
using namespace tandem::search;

static double getExcess(double a, double b) { return std::max(0.0, a - b); }

double tandem::search::getMostLost(const LineState &a, const StageWork &aWork,
                                   double aLeaving, const LineState &b,
                                   const StageWork &bWork, double bLeaving,
                                   int64_t numStrands) {
  double k = static_cast<double>(numStrands);
  double excess =
      getExcess(a.previous, b.previous) + getExcess(a.waiting, b.waiting) +
      getExcess(a.arriving, b.arriving) + getExcess(aLeaving, bLeaving) +
      k * getExcess(aWork.computationPerStrand, bWork.computationPerStrand) +
      getExcess(aWork.computationOnce, bWork.computationOnce) +
      getExcess(aWork.sums, bWork.sums);
  // A step's communication is the largest over the queues.
  double perStrand = 0, once = 0;
  for (unsigned q = 0; q < kMaxAxes; ++q) {
    perStrand = std::max(perStrand, getExcess(aWork.collectivePerStrand[q],
                                              bWork.collectivePerStrand[q]));
    once = std::max(
        once, getExcess(aWork.collectiveOnce[q], bWork.collectiveOnce[q]));
  }
  return excess + k * perStrand + once;
}
