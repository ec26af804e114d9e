//===- QueueClock.h - vector clocks of queues -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_SCHEDULE_QUEUECLOCK_H
#define TANDEM_TRANSFORMS_SCHEDULE_QUEUECLOCK_H

#include "tandem/Dialect/Sched/Sched.h"
#include "llvm/ADT/DenseMap.h"
#include <vector>

namespace tandem {

/// Per queue, how many of its steps are done. Queues are first in, first out,
/// so a number says which.
class QueueClock {
public:
  using Counts = llvm::SmallVector<int64_t, 3>;

  /// Of the queues of the module that holds `function`.
  explicit QueueClock(mlir::func::FuncOp function);

  const sched::Queues &getQueues() const { return queues; }
  /// The number of the queue of `step`.
  unsigned getQueue(sched::StepOp step) const {
    return queues.getNumber(step.getQueue());
  }
  /// What is done when `step`, the next of its queue, begins: what the step
  /// before it knew, that step itself, and what the awaited steps knew.
  Counts getStart(sched::StepOp step) const;
  /// Makes `step` the last one of its queue.
  void add(sched::StepOp step);
  /// Which one of its queue `step` is, from 1; 0 if it was not added.
  int64_t getPosition(sched::StepOp step) const;
  /// The step number `position`, from 1, of `queue`.
  sched::StepOp getStep(unsigned queue, int64_t position) const;
  int64_t getCount(unsigned queue) const { return steps[queue].size(); }

private:
  sched::Queues queues;
  std::vector<llvm::SmallVector<sched::StepOp>> steps;
  llvm::DenseMap<mlir::Operation *, std::pair<int64_t, Counts>> done;
  std::vector<Counts> known;
};

/// The step that makes `value`; null if it is an argument.
inline sched::StepOp getMaker(mlir::Value value) {
  return llvm::dyn_cast_or_null<sched::StepOp>(value.getDefiningOp());
}

/// The steps whose values the body of `step` reads.
llvm::SmallVector<sched::StepOp> getReadSteps(sched::StepOp step);

} // namespace tandem

#endif // TANDEM_TRANSFORMS_SCHEDULE_QUEUECLOCK_H
