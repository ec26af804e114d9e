//===- QueueText.h - queues as text -----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_SCHED_QUEUETEXT_H
#define TANDEM_LIB_DIALECT_SCHED_QUEUETEXT_H

#include "tandem/Dialect/Sched/Sched.h"

namespace tandem::sched {

/// `compute`, `comm[1]`. The directive `custom<Queue>` of ODS.
mlir::ParseResult parseQueue(mlir::AsmParser &parser, QueueAttr &queue);
void printQueue(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                QueueAttr queue);

} // namespace tandem::sched

#endif // TANDEM_LIB_DIALECT_SCHED_QUEUETEXT_H
