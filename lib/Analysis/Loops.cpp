//===- Loops.cpp - operators per loop of accumulation ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/Loops.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem/Dialect/Sched/Sched.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;

static int64_t getLastSegment(Block &block) {
  int64_t last = 0;
  for (Operation &op : block)
    if (std::optional<int64_t> loop = getLoop(&op))
      last = std::max(last, 2 * *loop + 2);
  return last;
}

llvm::DenseMap<Operation *, int64_t> tandem::getSegments(Block &block) {
  llvm::DenseMap<Operation *, int64_t> segments;
  int64_t last = getLastSegment(block);
  for (Operation &op : llvm::reverse(block)) {
    if (std::optional<int64_t> loop = getLoop(&op)) {
      segments[&op] = 2 * *loop + 1;
      continue;
    }
    int64_t segment = last;
    for (Operation *user : op.getUsers())
      // What a loop reads is made in front of it. Steps hold their operators.
      if (auto it = segments.find(block.findAncestorOpInBlock(*user));
          it != segments.end())
        segment = std::min(segment, it->second - it->second % 2);
    segments[&op] = segment;
  }
  return segments;
}

/// The operator that makes `value`, in the step that yields it.
static Operation *findMaker(Value value) {
  Operation *maker = value.getDefiningOp();
  auto step = dyn_cast_or_null<sched::StepOp>(maker);
  if (!step)
    return maker;
  unsigned index = cast<OpResult>(value).getResultNumber();
  Operation *yield = step.getBody().front().getTerminator();
  return index < yield->getNumOperands() ? findMaker(yield->getOperand(index))
                                         : maker;
}

static LogicalResult verifyRead(Operation *op, Value value) {
  Operation *maker = findMaker(value);
  std::optional<int64_t> own = getLoop(op);
  std::optional<int64_t> made = maker ? getLoop(maker) : std::nullopt;
  if (!made || (own == made && !isCarried(maker)) || isa<sched::YieldOp>(op))
    return success();
  if (isCarried(maker) && (!own || *own > *made))
    return success();
  return op->emitError() << "reads what '" << maker->getName().getStringRef()
                         << "' makes in loop " << *made
                         << (isCarried(maker)
                                 ? ", expected readers behind the loop"
                                 : ", expected 'spmd.carry' or 'spmd.collect' "
                                   "between the two");
}

/// The iteration of an action of a pipeline is the microbatch of its run.
static bool isOfAction(Operation *op) {
  return op->getParentOfType<ModuleOp>()->getParentOp() != nullptr;
}

static LogicalResult verifyOperator(Operation *op) {
  auto coordinate = dyn_cast<CoordinateOp>(op);
  bool needsLoop = isa<EnterOp>(op) || isCarried(op) ||
                   (coordinate && coordinate.isIteration() && !isOfAction(op));
  if (needsLoop && !getLoop(op))
    return op->emitError() << "operator '" << op->getName().getStringRef()
                           << "' is in no loop, expected one ('"
                           << kLoopAttrName << "')";
  for (Value operand : op->getOperands())
    if (failed(verifyRead(op, operand)))
      return failure();
  return success();
}

static std::string toString(std::optional<int64_t> loop) {
  return loop ? "loop " + std::to_string(*loop) : "no loop";
}

/// What a step holds is in its loop.
static LogicalResult verifyStep(sched::StepOp step) {
  for (Operation &op : step.getBody().front().without_terminator())
    if (getLoop(&op) != getLoop(step))
      return op.emitError() << "operator '" << op.getName().getStringRef()
                            << "' is in " << toString(getLoop(&op))
                            << ", its step in " << toString(getLoop(step));
  return success();
}

/// The steps of a loop stand together: it runs once.
static LogicalResult verifyTogether(func::FuncOp function) {
  llvm::DenseSet<int64_t> left;
  std::optional<int64_t> current;
  for (auto step : function.getBody().front().getOps<sched::StepOp>()) {
    std::optional<int64_t> loop = getLoop(step);
    if (current && loop != current)
      left.insert(*current);
    if (loop && left.contains(*loop))
      return step.emitError() << "the step comes back to loop " << *loop
                              << ", expected the steps of a loop one behind "
                                 "the other";
    current = loop;
  }
  return success();
}

LogicalResult tandem::verifyLoops(func::FuncOp step) {
  for (auto own : step.getBody().front().getOps<sched::StepOp>())
    if (failed(verifyStep(own)))
      return failure();
  if (failed(verifyTogether(step)))
    return failure();
  WalkResult result = step.walk([&](Operation *op) {
    if (getLoop(op) && getIterations(step) < 2) {
      op->emitError() << "is in a loop, but the function has no '"
                      << kIterationsAttrName << "', expected 2 at least";
      return WalkResult::interrupt();
    }
    return isa<func::FuncOp, sched::StepOp>(op)
               ? WalkResult::advance()
               : WalkResult(verifyOperator(op));
  });
  return failure(result.wasInterrupted());
}
