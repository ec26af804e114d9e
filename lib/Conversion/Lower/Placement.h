//===- Placement.h - placement of buffers in an arena -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_LOWER_PLACEMENT_H
#define TANDEM_LIB_CONVERSION_LOWER_PLACEMENT_H

#include "Lifetime.h"
#include "llvm/ADT/ArrayRef.h"
#include <vector>

namespace tandem::lower {

/// A buffer to place.
struct Buffer {
  int64_t bytes = 0;
  Lifetime life;
  int64_t offset = 0;
};

/// What each command of each queue knows to be done when it ends, itself
/// included: the first one of a queue stands first.
using QueueClocks = std::vector<std::vector<Clock>>;

/// Sets the offsets: buffers that live together have no bytes in common. Places
/// first what is large, or what is large and lives where much does: there no
/// gaps may be left; each buffer as low as it fits. Takes of the two orders the
/// one that needs less, and returns the size of the arena. Equal ones are
/// placed in their order. Takes n log n steps for n buffers but for the
/// fragments that the arena has between them.
int64_t place(llvm::MutableArrayRef<Buffer> buffers, const QueueClocks &clocks);

} // namespace tandem::lower

#endif // TANDEM_LIB_CONVERSION_LOWER_PLACEMENT_H
