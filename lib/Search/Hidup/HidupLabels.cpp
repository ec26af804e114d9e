//===- HidupLabels.cpp - partial plans and their dominance ----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A completion adds x >= 0 to the open stage's forward communication, z >= 0 to
// the backward one and y >= 0 to the computation, and goes on with F, the
// stage's computation, as the next D. What label a costs more than label b is
// then at most a sum of the largest differences of the terms:
//
//   max(D, f + x)          the one at x = 0 or that of f
//   max(F + y, f + x)      that of F or that of f
//   rest(F + y)            rises with slope at most 3 (the next stage's
//                          max(D, f) + 2 D) and at least 1 (the last stage's F;
//                          0 where 2 D is hidden by the backward communication)
//
// "Smaller in every component" is the special case in which all are at most 0.
//
//===----------------------------------------------------------------------===//

#include "HidupLabels.h"

using namespace tandem::cost;
using namespace tandem::search::hidup;

/// Largest max(u, v + x) - max(u', v' + x) over x >= 0.
static Time getLargestDifference(Time u, Time v, Time otherU, Time otherV) {
  return std::max(std::max(u, v) - std::max(otherU, otherV), v - otherV);
}

bool tandem::search::hidup::dominates(Accounting accounting, const Label &a,
                                      const Label &b) {
  const HidupStage<Time> &s = a.open, &t = b.open;
  Time computation = s.computation - t.computation;
  Time forward = s.forward - t.forward, backward = s.backward - t.backward;
  Time most =
      a.closed - b.closed +
      getLargestDifference(s.previous, s.forward, t.previous, t.forward) +
      std::max(computation, forward);
  if (accounting == Accounting::HidupSerial)
    most += 2 * (s.previous - t.previous + backward + computation) +
            (computation > 0 ? 3 * computation : computation);
  else
    most += getLargestDifference(2 * s.previous, s.backward, 2 * t.previous,
                                 t.backward) +
            std::max(2 * computation, backward) +
            std::max<Time>(3 * computation, 0);
  return most < 0 || (most == 0 && getRank(a) <= getRank(b));
}
