//===- Host.h - copies from and to the host ---------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SCHED_HOST_H
#define TANDEM_DIALECT_SCHED_HOST_H

#include "tandem/Dialect/Sched/Sched.h"

#define GET_OP_CLASSES
#include "tandem/Dialect/Sched/HostOps.h.inc"

namespace tandem::sched {

/// The queues of copies: a direction each, since a link works in both at once.
inline constexpr unsigned kFromHostQueue = 0, kToHostQueue = 1;

inline QueueAttr getCopyQueue(mlir::MLIRContext *context, unsigned number) {
  return QueueAttr::get(context, QueueRole::Copy, number);
}

/// On a buffer of a lowered step: it lies in the host's memory. On the module,
/// the bytes that these take there together.
inline constexpr llvm::StringLiteral kHostBufferAttrName = "sched.host",
                                     kHostArenaAttrName = "sched.host_arena";

/// On a module whose Program holds too much without: computation waits for the
/// collectives of the stages before its own, and for all copies to the host but
/// so many, whose memory it then has.
inline constexpr llvm::StringLiteral kInFlightAttrName = "sched.in_flight";

/// Whether a value of a scheduled step is a copy in the host's memory.
bool isSentToHost(mlir::Value value);

/// Whether `op` copies from the host or to it.
inline bool isHostCopy(mlir::Operation *op) {
  return mlir::isa<FromHostOp, ToHostOp>(op);
}

} // namespace tandem::sched

#endif // TANDEM_DIALECT_SCHED_HOST_H
