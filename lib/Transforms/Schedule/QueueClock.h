//===- QueueClock.h - what a step knows to be done --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_SCHEDULE_QUEUECLOCK_H
#define TANDEM_TRANSFORMS_SCHEDULE_QUEUECLOCK_H

#include "tandem/Dialect/Sched/Sched.h"
#include "llvm/ADT/DenseMap.h"
#include <array>

namespace tandem {

/// Per queue, how many of its steps are done. Queues are first in, first out,
/// so a number says which.
class QueueClock {
public:
  using Counts = std::array<int64_t, 2>;

  /// What is done when `step`, the next of its queue, begins: what the step
  /// before it knew, that step itself, and what the awaited steps knew.
  Counts getStart(sched::StepOp step) const;
  /// Makes `step` the last one of its queue.
  void add(sched::StepOp step);
  /// Which one of its queue `step` is, from 1; 0 if it was not added.
  int64_t getPosition(sched::StepOp step) const;
  /// The step number `position`, from 1, of `queue`.
  sched::StepOp getStep(sched::Queue queue, int64_t position) const;
  int64_t getCount(sched::Queue queue) const {
    return steps[static_cast<unsigned>(queue)].size();
  }

private:
  std::array<llvm::SmallVector<sched::StepOp>, 2> steps;
  llvm::DenseMap<mlir::Operation *, std::pair<int64_t, Counts>> done;
  std::array<Counts, 2> known = {};
};

inline unsigned getIndex(sched::StepOp step) {
  return static_cast<unsigned>(step.getQueue());
}

/// The step that makes `value`; null if it is an argument.
inline sched::StepOp getMaker(mlir::Value value) {
  return llvm::dyn_cast_or_null<sched::StepOp>(value.getDefiningOp());
}

/// The steps whose values the body of `step` reads.
llvm::SmallVector<sched::StepOp> getReadSteps(sched::StepOp step);

} // namespace tandem

#endif // TANDEM_TRANSFORMS_SCHEDULE_QUEUECLOCK_H
