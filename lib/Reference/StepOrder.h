//===- StepOrder.h - steps finished before a step ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Internal to lib/Reference. The queues of a device run their steps in the
// order of the text; across queues only events order them. A value may be read
// only if its step is certain to be done.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_REFERENCE_STEPORDER_H
#define TANDEM_LIB_REFERENCE_STEPORDER_H

#include "tandem/Dialect/Sched/Sched.h"
#include <vector>

namespace tandem::reference {

class StepOrder {
public:
  /// For the steps of `function`.
  explicit StepOrder(mlir::func::FuncOp function)
      : queues(function), last(queues.size(), Clock(queues.size(), 0)) {}

  /// Adds the next step of the text. Fails, with an error at the reader, if the
  /// step reads a value of a step that need not be done when it begins.
  mlir::LogicalResult addStep(sched::StepOp step);

private:
  /// How many steps of each queue are certain to be done.
  using Clock = llvm::SmallVector<int64_t, 3>;
  struct Done {
    unsigned queue;
    int64_t position; // counted from 1
    Clock clock;      // once the step is done
  };

  Clock getStart(sched::StepOp step) const;
  mlir::LogicalResult checkReads(sched::StepOp step, const Clock &start) const;

  sched::Queues queues;
  llvm::DenseMap<mlir::Operation *, Done> steps;
  std::vector<Clock> last;
};

} // namespace tandem::reference

#endif // TANDEM_LIB_REFERENCE_STEPORDER_H
