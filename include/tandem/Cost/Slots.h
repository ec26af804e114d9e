//===- Slots.h - overlap within a slot --------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The arithmetic of one slot (Cost.h, *Slots* and *Waiting*), for `cost` and
// for algorithms that extend a time line step by step.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COST_SLOTS_H
#define TANDEM_COST_SLOTS_H

#include "tandem/Cost/SearchProblem.h"
#include <algorithm>

namespace tandem::cost {

/// A slot: what step j communicates beside what step j - 1 computes.
struct Slot {
  double seconds = 0;
  /// Seconds taken from the waiting queue.
  double waited = 0;
  bool isSerial = false;
};

/// A step of the time line: a stage's strand.
struct Step {
  unsigned stage, strand;
  double collective = 0;  // c, s
  double computation = 0; // p, s
  /// Beside its own collective (Cost.h, *Ahead*), s.
  double ahead = 0;
};

/// beta and gamma of an overlapped slot.
struct Interference {
  double beta = 0, gamma = 0;

  explicit Interference(const SearchProblem &problem)
      : beta(std::min(1.0, problem.collectiveSlowdown *
                               (1 - 1 / problem.computeSlowdown))),
        gamma(std::min(1.0, problem.computeSlowdown *
                                (1 - 1 / problem.collectiveSlowdown))) {}

  /// Seconds of a slot that communicates for `collective` beside the
  /// `computation` of the step before; one after the other if `isSerial`.
  double getSlot(double computation, double collective, bool isSerial) const {
    if (isSerial)
      return computation + collective;
    return std::max(computation + beta * collective,
                    collective + gamma * computation);
  }

  /// The most seconds of waiting collectives that the slot can take; it grows
  /// by beta times what it takes.
  double getRoom(double computation, double collective, bool isSerial) const {
    if (beta >= 1)
      return 0;
    double room = computation * (1 - gamma) / (1 - beta);
    return std::max(0.0, isSerial ? room : room - collective);
  }
};

} // namespace tandem::cost

#endif // TANDEM_COST_SLOTS_H
