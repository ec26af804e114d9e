//===- Segments.h - cuts of the forward pass --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is alive across several segments (a skip, what an encoder gives to all
// layers of a decoder) is held once, wherever cuts are. So cuts are judged by
// what crosses any of them, and by what a segment makes again. The backward
// pass runs the last segment first, and releases what crosses cuts on its way:
// of a whole pass a segment holds what crosses the cuts in front of it, of a
// part of one all that crosses counts.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_IMPORT_SEGMENTS_H
#define TANDEM_LIB_TRANSFORMS_IMPORT_SEGMENTS_H

#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <vector>

namespace tandem::nn {

/// What an operator makes.
struct Made {
  int64_t bytes = 0;
  /// The last operator of the forward pass that reads it, or itself.
  unsigned last = 0;
  /// Whether the backward pass reads it.
  bool isSaved = false;
  /// Whether a segment may end behind it.
  bool mayEnd = false;
};

/// The operators of [begin, end) behind which it is cut so that least is held,
/// in order. None, if they hold more than `share` of what none do. `isWhole`:
/// they are all of a pass.
std::vector<unsigned> cutSegment(llvm::ArrayRef<Made> made, unsigned begin,
                                 unsigned end, bool isWhole, double share);

} // namespace tandem::nn

#endif // TANDEM_LIB_TRANSFORMS_IMPORT_SEGMENTS_H
