//===- Held.h - memory bound at one operator --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An operator runs beside what was made up to it and is used from it on,
// whatever the stages are (Cost.h, *Memory*): in its producer's layout, or as
// copies that earlier users made. Of what is over time one strand's share is
// there for sure: in a stage that holds all of the step the other strands hold
// nothing. The place is where most bytes are held if each tensor takes its
// smallest layout, in the backward pass.
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
  /// Whether copies that users before the place made may be held instead of
  /// what was produced.
  bool isReplaceable(unsigned tensor) const {
    return held[tensor] && numEarly[tensor] > 0;
  }
  /// How many of its uses lie before the place.
  unsigned getNumEarly(unsigned tensor) const { return numEarly[tensor]; }
  /// Whether a copy that is kept from an earlier pass for the next one is
  /// there. Holds for no tensor if the place is not in the backward pass.
  bool holdsKept(unsigned tensor) const;
  /// Bytes of a device that it holds at least in the layout that is made.
  int64_t getBytes(unsigned tensor, const cost::Layout &layout) const;
  /// The least of a copy that users before the place make.
  int64_t getLeastCopy(unsigned tensor) const;

private:
  struct Life {
    unsigned first;
    int last;
  };

  int lastOf(unsigned tensor, cost::Pass pass) const;
  Life getLife(unsigned tensor) const;
  bool isAlive(unsigned tensor) const;
  unsigned findPlace() const;

  const Facts &facts;
  /// The operators between which the place may lie, and the place.
  unsigned begin = 0, end = 0, place = 0;
  bool isInBackward = false;
  std::vector<bool> held;
  /// 0 of arguments.
  std::vector<unsigned> numEarly;
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_PROBLEM_HELD_H
