//===- StepOrder.cpp - steps finished before a step -----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StepOrder.h"

using namespace mlir;
using namespace tandem::sched;

namespace tandem::reference {

StepOrder::Clock StepOrder::getStart(StepOp step) const {
  Clock start = last[queues.getNumber(step.getQueue())];
  for (Value event : step.getAfter()) {
    auto it = steps.find(event.getDefiningOp());
    if (it == steps.end())
      continue;
    for (unsigned queue = 0; queue < start.size(); ++queue)
      start[queue] = std::max(start[queue], it->second.clock[queue]);
  }
  return start;
}

LogicalResult StepOrder::checkReads(StepOp step, const Clock &start) const {
  auto check = [&](Operation *reader) {
    for (Value value : reader->getOperands()) {
      auto it = steps.find(value.getDefiningOp());
      if (it == steps.end() || it->second.position <= start[it->second.queue])
        continue;
      return WalkResult(reader->emitError("reads a value of a step of stage ")
                        << cast<StepOp>(it->first).getStage() << " on "
                        << str(queues[it->second.queue])
                        << ", but no awaited event says that it is done");
    }
    return WalkResult::advance();
  };
  return failure(step.getBody().walk(check).wasInterrupted());
}

LogicalResult StepOrder::addStep(StepOp step) {
  unsigned queue = queues.getNumber(step.getQueue());
  Clock clock = getStart(step);
  if (failed(checkReads(step, clock)))
    return failure();
  int64_t position = ++clock[queue];
  last[queue] = clock;
  steps.try_emplace(step, Done{queue, position, clock});
  return success();
}

} // namespace tandem::reference
