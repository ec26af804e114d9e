//===- Schedule.cpp - the schedule stage ----------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Transforms/Schedule/Schedule.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace tandem {

void buildSchedulePipeline(OpPassManager &manager,
                           const ScheduleOptions &options) {
  auto add = [&](std::unique_ptr<Pass> pass) {
    manager.addNestedPass<func::FuncOp>(std::move(pass));
  };
  // What a plan decided; nothing where it has no stages.
  add(createCutWaitingPass());
  add(createFollowPlanPass());
  // Else a choice, written as attributes; what follows only carries it out.
  add(createAssignSlotsPass({options.pieces}));
  // What a slot sends in many small messages it sends in one.
  add(createCombineWaitingPass());
  // Updates of what lies on the host walk over buckets.
  add(createFormBucketsPass({options.bucket, options.largestFirst}));
  add(createFormStepsPass());
  // Copies are steps, and have queues of their own, which the module lists.
  manager.addPass(createCopyHostPass());
  // Last, since which reads cross queues is known only when steps are there.
  add(createPlaceEventsPass());
  // Holds the schedule to the cost of its plan, if that was priced for it.
  add(createPriceSchedulePass());
}

} // namespace tandem
