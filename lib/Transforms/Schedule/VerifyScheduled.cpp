//===- VerifyScheduled.cpp - the exit of the schedule stage ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "QueueClock.h"
#include "Roles.h"
#include "tandem/Analysis/Loops.h"
#include "tandem/Analysis/StepFacts.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/Host.h"
#include "tandem/Dialect/Sched/Host.h"
#include "tandem/Transforms/Schedule/Schedule.h"
#include "tandem/Transforms/StepPass.h"

namespace tandem {
#define GEN_PASS_DEF_VERIFYSCHEDULEDPASS
#include "tandem/Transforms/Schedule/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using sched::QueueRole;
using sched::StepOp;

namespace {
class ScheduleVerifier {
public:
  explicit ScheduleVerifier(func::FuncOp function)
      : function(function), clock(function),
        loss(dyn_cast_or_null<StepOp>(findLoss(function))) {}
  LogicalResult run();

private:
  LogicalResult verifyStep(StepOp step);
  LogicalResult verifyBody(StepOp step);
  LogicalResult verifyHostReads(Operation *op);
  LogicalResult verifyHostResults();
  LogicalResult verifyReads(StepOp step);
  LogicalResult verifyOrder(StepOp step);
  LogicalResult verifyUpdate(StepOp step);

  func::FuncOp function;
  QueueClock clock;
  StepOp loss;
};

struct VerifyScheduledPass
    : tandem::StepPass<
          tandem::impl::VerifyScheduledPassBase<VerifyScheduledPass>> {
  LogicalResult runOnStep(func::FuncOp function) override {
    return ScheduleVerifier(function).run();
  }
};
} // namespace

/// All ranks run this one program. They meet their collectives in the same
/// order on each queue, since none is conditional.
LogicalResult ScheduleVerifier::verifyBody(StepOp step) {
  QueueRole role = step.getQueue().getRole();
  Block &body = step.getBody().front();
  // What a plan prepares for a collective is beside the computation as well.
  bool moves =
      role != QueueRole::Compute && !body.without_terminator().empty() &&
      llvm::all_of(body.without_terminator(),
                   [](Operation &op) { return isMove(&op) || isSource(&op); });
  for (Operation &op : body.without_terminator()) {
    if ((!sched::isHostCopy(&op) && failed(verifyUnscheduled(&op))) ||
        failed(verifyHostReads(&op)))
      return failure();
    QueueRole own = sched::isHostCopy(&op) ? QueueRole::Copy
                    : isCollective(&op)    ? QueueRole::Communication
                                           : QueueRole::Compute;
    if (!moves && own != role)
      return op.emitError()
             << "operator '" << op.getName().getStringRef()
             << "' is on the queue '" << sched::str(step.getQueue())
             << "', expected '" << stringifyQueueRole(own) << "'";
  }
  return success();
}

/// What lies on the host is read by copies from there alone, which read nothing
/// else.
LogicalResult ScheduleVerifier::verifyHostReads(Operation *op) {
  bool isFetch = isa<sched::FromHostOp>(op);
  auto isOnHost = [&](Value value) {
    return spmd::isOnHost(function, value) || sched::isSentToHost(value);
  };
  for (Value operand : op->getOperands())
    if (isOnHost(operand) != isFetch)
      return op->emitError()
             << "operator '" << op->getName().getStringRef() << "' reads what "
             << (isFetch ? "does not lie" : "lies") << " on the host ('"
             << spmd::kHostAttrName << "'), expected "
             << (isFetch ? "what does" : "a copy of it");
  return success();
}

/// A new value lies where the old one does, and what is copied to the host is
/// one.
LogicalResult ScheduleVerifier::verifyHostResults() {
  Operation *ret = function.getBody().front().getTerminator();
  for (auto [index, value] : llvm::enumerate(ret->getOperands())) {
    auto updated = nn::getUpdates(function.getResultAttrDict(index));
    bool isOnHost = updated && spmd::isOnHost(function, *updated);
    bool isKept = isOnHost && value == function.getArgument(*updated);
    if (!isKept && (isOnHost != sched::isSentToHost(value) ||
                    (!isOnHost && spmd::isOnHost(function, value))))
      return function.emitError()
             << "result " << index << " lies on the "
             << (isOnHost ? "device" : "host") << ", expected the "
             << (isOnHost ? "host, where the argument lies that it updates"
                          : "device");
  }
  return success();
}

LogicalResult ScheduleVerifier::verifyReads(StepOp step) {
  QueueClock::Counts start = clock.getStart(step);
  for (StepOp maker : getReadSteps(step))
    if (clock.getPosition(maker) > start[clock.getQueue(maker)])
      return step.emitError()
             << "the step of stage " << step.getStage() << ", strand "
             << step.getStrand() << " on '" << sched::str(step.getQueue())
             << "' reads a value of stage " << maker.getStage() << ", strand "
             << maker.getStrand() << " on '" << sched::str(maker.getQueue())
             << "', but no awaited event says that it is done";
  return success();
}

LogicalResult ScheduleVerifier::verifyOrder(StepOp step) {
  unsigned queue = clock.getQueue(step);
  int64_t before = clock.getCount(queue);
  if (before == 0)
    return success();
  StepOp last = clock.getStep(queue, before);
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
LogicalResult ScheduleVerifier::verifyUpdate(StepOp step) {
  bool updates = llvm::any_of(step.getBody().front(), [](Operation &op) {
    return isUpdate(&op) && !isCollective(&op);
  });
  if (!loss || !updates || step == loss)
    return success();
  if (clock.getPosition(loss) > 0 &&
      clock.getPosition(loss) <= clock.getStart(step)[clock.getQueue(loss)])
    return success();
  return step.emitError() << "the step of stage " << step.getStage()
                          << " updates before the loss, which is made in stage "
                          << loss.getStage() << ", is known";
}

LogicalResult ScheduleVerifier::verifyStep(StepOp step) {
  if (failed(verifyBody(step)) || failed(verifyReads(step)) ||
      failed(verifyOrder(step)) || failed(verifyUpdate(step)))
    return failure();
  clock.add(step);
  return success();
}

LogicalResult ScheduleVerifier::run() {
  if (failed(verifyForms(function, spmd::getMesh(function), FormsLeft::At)))
    return failure();
  for (Operation &op : function.getBody().front().without_terminator())
    if (!isa<StepOp>(op))
      return op.emitError() << "operator '" << op.getName().getStringRef()
                            << "' outside of a step, expected steps only";
  if (failed(sched::verifyQueues(function)) ||
      failed(verifyDeclared(function)) || failed(verifyPasses(function)) ||
      failed(verifyLoops(function)) || failed(verifyStrands(function)))
    return failure();
  for (auto step : function.getBody().front().getOps<StepOp>())
    if (failed(verifyStep(step)))
      return failure();
  if (failed(verifyHostResults()))
    return failure();
  return verifyLayouts(function, spmd::getMesh(function));
}
