//===- Serial.h - serial collectives ----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A collective that is made once hides beside the last strand of the stage
// before, if both stages have k strands. Where every operator before u leads to
// u through tensors of the batch, that stage can have none if u computes the
// whole batch at once: on the way from an operator that is split over time to u
// the strands are joined, in u's stage at the latest, which is then serial. So
// what u is the first to want costs its seconds in full.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SEARCH_TANDEM_PROBLEM_SERIAL_H
#define TANDEM_LIB_SEARCH_TANDEM_PROBLEM_SERIAL_H

#include "Tandem/Problem/Facts.h"

namespace tandem::search {

struct SerialClaims {
  explicit SerialClaims(const Facts &facts);

  /// Per operator: copies that it is the first to want, if it computes the
  /// whole batch at once, lie in a serial slot.
  std::vector<bool> isClaimed;
  /// Whether no update is split over time: all their stages are serial.
  bool updatesAreSerial = false;

private:
  void claim(const Facts &facts);
};

} // namespace tandem::search

#endif // TANDEM_LIB_SEARCH_TANDEM_PROBLEM_SERIAL_H
