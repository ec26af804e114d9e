//===- Lifetime.h - lifetime of buffers -------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_LOWER_LIFETIME_H
#define TANDEM_CONVERSION_LOWER_LIFETIME_H

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>

namespace tandem::lower {

/// For each queue how many of its commands are done.
using Clock = llvm::SmallVector<int64_t, 3>;

/// Whether all that `a` counts is in `b` as well.
inline bool isWithin(const Clock &a, const Clock &b) {
  return llvm::all_of_zip(a, b, [](int64_t x, int64_t y) { return x <= y; });
}

/// When a buffer holds something.
struct Lifetime {
  /// What is surely done when its first use begins.
  Clock birth;
  /// The first and the last use on each queue; 0 if there is none.
  Clock first, death;

  /// Whether all its uses are done when any of the other's begins.
  bool diesBefore(const Lifetime &other) const {
    return isWithin(death, other.birth);
  }
  bool livesWith(const Lifetime &other) const {
    return !diesBefore(other) && !other.diesBefore(*this);
  }
};

} // namespace tandem::lower

#endif // TANDEM_CONVERSION_LOWER_LIFETIME_H
