//===- Ahead.h - recomputation beside collectives of its stage --*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_SCHEDULE_AHEAD_H
#define TANDEM_TRANSFORMS_SCHEDULE_AHEAD_H

#include "Slot.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tandem {

/// The slots of operators that plans let run ahead, by operator.
using Slots = llvm::DenseMap<mlir::Operation *, Slot>;

/// Gives what the stages `spmd.ahead` make again, in `slots`, the slot of the
/// last collectives up to it, as far as it reads what was made before. Values
/// without a slot follow their readers. Sets `spmd.ahead` to the stages of the
/// collectives.
void runAhead(mlir::func::FuncOp step, Slots &slots);

/// Moves to the front of a slot's computation, in their order, the operators
/// that make values again of what earlier stages made. Returns how many. What
/// only operators behind them read as elements stays in the kernel of these.
size_t moveAhead(const Slot &slot,
                 llvm::SmallVectorImpl<mlir::Operation *> &ops);

} // namespace tandem

#endif // TANDEM_TRANSFORMS_SCHEDULE_AHEAD_H
