//===- Ahead.h - recomputation beside collectives of its stage --*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_SCHEDULE_AHEAD_H
#define TANDEM_TRANSFORMS_SCHEDULE_AHEAD_H

#include "Slot.h"

namespace tandem {

/// Moves to the front of a slot's computation, in their order, the operators
/// that make values again of what earlier stages made. Returns how many. What
/// only operators behind them read as elements stays in the kernel of these.
size_t moveAhead(const Slot &slot,
                 llvm::SmallVectorImpl<mlir::Operation *> &ops);

} // namespace tandem

#endif // TANDEM_TRANSFORMS_SCHEDULE_AHEAD_H
