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

/// Whether `op` copies from the host or to it.
inline bool isHostCopy(mlir::Operation *op) {
  return mlir::isa<FromHostOp, ToHostOp>(op);
}

} // namespace tandem::sched

#endif // TANDEM_DIALECT_SCHED_HOST_H
