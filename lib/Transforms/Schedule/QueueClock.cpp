//===- QueueClock.cpp - vector clocks of queues ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "QueueClock.h"

using namespace mlir;
using namespace tandem;
using sched::StepOp;

QueueClock::QueueClock(func::FuncOp function)
    : queues(function), steps(queues.size()),
      known(queues.size(), Counts(queues.size(), 0)) {}

QueueClock::Counts QueueClock::getStart(StepOp step) const {
  Counts start = known[getQueue(step)];
  for (Value event : step.getAfter()) {
    auto it = done.find(event.getDefiningOp());
    if (it == done.end())
      continue;
    for (unsigned queue = 0; queue < start.size(); ++queue)
      start[queue] = std::max(start[queue], it->second.second[queue]);
  }
  return start;
}

void QueueClock::add(StepOp step) {
  unsigned queue = getQueue(step);
  Counts clock = getStart(step);
  steps[queue].push_back(step);
  clock[queue] = steps[queue].size();
  known[queue] = clock;
  done.try_emplace(step, clock[queue], clock);
}

int64_t QueueClock::getPosition(StepOp step) const {
  return done.lookup(step).first;
}

StepOp QueueClock::getStep(unsigned queue, int64_t position) const {
  return steps[queue][position - 1];
}

SmallVector<StepOp> tandem::getReadSteps(StepOp step) {
  SmallVector<StepOp> read;
  step.getBody().walk([&](Operation *op) {
    for (Value operand : op->getOperands())
      if (StepOp maker = getMaker(operand);
          maker && !llvm::is_contained(read, maker))
        read.push_back(maker);
  });
  return read;
}
