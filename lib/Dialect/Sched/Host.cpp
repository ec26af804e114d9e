//===- Host.cpp - copies from and to the host -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Sched/Host.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace tandem::sched;

#define GET_OP_CLASSES
#include "tandem/Dialect/Sched/HostOps.cpp.inc"

bool tandem::sched::isSentToHost(Value value) {
  auto step = value.getDefiningOp<StepOp>();
  return step && step.getBody()
                     .front()
                     .getTerminator()
                     ->getOperand(cast<OpResult>(value).getResultNumber())
                     .getDefiningOp<ToHostOp>();
}
