//===- Held.h - memory bound at one operator --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The stage of one operator holds, whatever the stages are, what is resident
// and what was made up to there and is used from there on, in its producer's
// layout (Cost.h, *Memory*); and the copies that are kept beyond it. That place
// is where most bytes are alive if each tensor takes its smallest layout: near
// the beginning of the backward pass.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_PROBLEM_HELD_H
#define TANDEM_LIB_SEARCH_TANDEM_PROBLEM_HELD_H

#include "Tandem/Problem/Facts.h"

namespace tandem::search {

class HeldTensors {
public:
  explicit HeldTensors(const Facts &facts);

  /// Whether every plan holds the tensor there.
  bool isHeld(unsigned tensor) const { return held[tensor]; }
  /// Whether a copy that is kept from the forward pass for the next one is
  /// there. Holds for no tensor if the place is not in the backward pass.
  bool holdsKept(unsigned tensor) const;
  /// Bytes of a device that it holds at least if it is made in this layout.
  int64_t getBytes(unsigned tensor, const cost::Layout &layout) const;

private:
  bool isResident(unsigned tensor) const;
  bool isAlive(unsigned tensor, unsigned op) const;
  int lastOf(unsigned tensor, cost::Pass pass) const;
  unsigned findPlace() const;

  const Facts &facts;
  /// The operators between which the place may lie, and the place.
  unsigned begin = 0, end = 0, place = 0;
  bool isInBackward = false;
  std::vector<bool> held;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_PROBLEM_HELD_H
