//===- VerifyScheduled.cpp - the exit of the schedule stage ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "QueueClock.h"
#include "Roles.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Schedule/Schedule.h"
#include "tandem/Transforms/StepPass.h"

namespace tandem {
#define GEN_PASS_DEF_VERIFYSCHEDULEDPASS
#include "tandem/Transforms/Schedule/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using sched::StepOp;

namespace {
class VerifyScheduledPass
    : public tandem::StepPass<
          tandem::impl::VerifyScheduledPassBase<VerifyScheduledPass>> {
public:
  LogicalResult runOnStep(func::FuncOp function) override;

private:
  LogicalResult verifyStep(StepOp step);
  LogicalResult verifyBody(StepOp step);
  LogicalResult verifyReads(StepOp step);
  LogicalResult verifyOrder(StepOp step);
  LogicalResult verifyUpdate(StepOp step);

  QueueClock clock;
  StepOp loss;
};
} // namespace

/// All ranks run this one program. They meet their collectives in the same
/// order, since all of these are on one queue and none is conditional.
LogicalResult VerifyScheduledPass::verifyBody(StepOp step) {
  bool isComm = step.getQueue() == sched::Queue::Comm;
  Block &body = step.getBody().front();
  // What a plan prepares for a collective is beside the computation as well.
  bool moves = isComm && !body.without_terminator().empty() &&
               llvm::all_of(body.without_terminator(), [](Operation &op) {
                 return isMove(&op) || isSource(&op);
               });
  for (Operation &op : body.without_terminator()) {
    if (failed(verifyUnscheduled(&op)))
      return failure();
    if (!moves && isCollective(&op) != isComm)
      return op.emitError()
             << "operator '" << op.getName().getStringRef()
             << "' is on the queue '" << stringifyQueue(step.getQueue())
             << "', expected '" << (isComm ? "compute" : "comm") << "'";
  }
  return success();
}

LogicalResult VerifyScheduledPass::verifyReads(StepOp step) {
  QueueClock::Counts start = clock.getStart(step);
  for (StepOp maker : getReadSteps(step))
    if (clock.getPosition(maker) > start[getIndex(maker)])
      return step.emitError()
             << "the step of stage " << step.getStage() << ", strand "
             << step.getStrand() << " on '" << stringifyQueue(step.getQueue())
             << "' reads a value of stage " << maker.getStage() << ", strand "
             << maker.getStrand() << " on '" << stringifyQueue(maker.getQueue())
             << "', but no awaited event says that it is done";
  return success();
}

LogicalResult VerifyScheduledPass::verifyOrder(StepOp step) {
  int64_t before = clock.getCount(step.getQueue());
  if (before == 0)
    return success();
  StepOp last = clock.getStep(step.getQueue(), before);
  if (std::pair(last.getStage(), last.getStrand()) <=
      std::pair(step.getStage(), step.getStrand()))
    return success();
  return step.emitError() << "the step of stage " << step.getStage()
                          << ", strand " << step.getStrand()
                          << " comes after the one of stage " << last.getStage()
                          << ", strand " << last.getStrand()
                          << " on the same queue";
}

/// A loss that is not finite must be seen before anything is updated.
LogicalResult VerifyScheduledPass::verifyUpdate(StepOp step) {
  bool updates = llvm::any_of(step.getBody().front(), [](Operation &op) {
    return isUpdate(&op) && !isCollective(&op);
  });
  if (!loss || !updates || step == loss)
    return success();
  if (clock.getPosition(loss) > 0 &&
      clock.getPosition(loss) <= clock.getStart(step)[getIndex(loss)])
    return success();
  return step.emitError() << "the step of stage " << step.getStage()
                          << " updates before the loss, which is made in stage "
                          << loss.getStage() << ", is known";
}

LogicalResult VerifyScheduledPass::verifyStep(StepOp step) {
  if (failed(verifyBody(step)) || failed(verifyReads(step)) ||
      failed(verifyOrder(step)) || failed(verifyUpdate(step)))
    return failure();
  clock.add(step);
  return success();
}

LogicalResult VerifyScheduledPass::runOnStep(func::FuncOp function) {
  clock = QueueClock();
  if (failed(verifyFormsOn(function, spmd::MeshAttr())))
    return failure();
  loss = dyn_cast_or_null<StepOp>(findLoss(function));
  for (Operation &op : function.getBody().front().without_terminator()) {
    auto step = dyn_cast<StepOp>(op);
    if (!step)
      return op.emitError() << "operator '" << op.getName().getStringRef()
                            << "' outside of a step, expected steps only";
    if (failed(verifyStep(step)))
      return failure();
  }
  return success();
}
