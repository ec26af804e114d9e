//===- Placement.h - placement of buffers in an arena -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_LOWER_PLACEMENT_H
#define TANDEM_CONVERSION_LOWER_PLACEMENT_H

#include "tandem/Conversion/Lower/Lifetime.h"
#include "llvm/ADT/ArrayRef.h"
#include <vector>

namespace tandem::lower {

/// A buffer to place.
struct Buffer {
  int64_t bytes = 0;
  Lifetime life;
  int64_t offset = 0;

  int64_t getEnd() const { return offset + bytes; }
};

/// What each command of each queue knows to be done when it ends, itself
/// included: the first one of a queue stands first.
using QueueClocks = std::vector<std::vector<Clock>>;

/// Sets the offsets: buffers that live together have no bytes in common. Each
/// buffer, in this order, lies as low as it fits. Returns the size of the
/// arena. Takes n log n steps for n buffers but for the fragments that the
/// arena has between them.
int64_t placeInOrder(llvm::ArrayRef<size_t> order,
                     llvm::MutableArrayRef<Buffer> buffers,
                     const QueueClocks &clocks);

/// Likewise beside buffers that have their places, the largest one first.
int64_t placeBeside(llvm::ArrayRef<Buffer> placed,
                    llvm::MutableArrayRef<Buffer> buffers,
                    const QueueClocks &clocks);

/// As `placeInOrder`, in the best order of some: the largest first, as buffers
/// pile up without gaps, what lives where much does first, what is born first.
/// From each of them on, what ends too high is placed earlier, again and again.
/// Ends where the arena is as small as the bytes that surely live at once.
/// Equal ones are placed in their order. A draft tries the orders once, which
/// takes about a tenth of the time.
int64_t place(llvm::MutableArrayRef<Buffer> buffers, const QueueClocks &clocks,
              bool isDraft = false);

} // namespace tandem::lower

#endif // TANDEM_CONVERSION_LOWER_PLACEMENT_H
