//===- ReuseOperands.cpp - results in the memory of operands --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandOrder.h"
#include "Counts.h"
#include "Steps.h"
#include "tandem/Conversion/Kernels/Kernels.h"
#include "tandem/Conversion/Lower/Lower.h"
#include "tandem/Dialect/Sched/Host.h"

using namespace mlir;

namespace tandem::lower {

#define GEN_PASS_DEF_REUSEOPERANDS
#include "tandem/Conversion/Lower/Passes.h.inc"

namespace {
/// Decides about one command after the other, on the uses as they are then.
class OperandReuser {
public:
  explicit OperandReuser(func::FuncOp function)
      : order(function), accesses(getAccesses(order)) {}
  void reuse(sched::LaunchOp launch);
  void reuse(sched::CollectiveOp collective);

private:
  sched::AllocOp findWhole(Value buffer) const;
  bool isDone(sched::AllocOp operand, Operation *command) const;
  bool isBegun(sched::AllocOp result, Operation *command) const;
  bool mayWriteOver(sched::AllocOp operand, sched::LaunchOp launch,
                    unsigned output);
  void join(sched::AllocOp operand, sched::AllocOp result);

  CommandOrder order;
  llvm::DenseMap<Value, SmallVector<Access>> accesses;
  SymbolTableCollection symbols;
};
} // namespace

static bool isAsLarge(Value buffer, Value whole) {
  return countBytes(ValueRange(buffer)) == countBytes(ValueRange(whole));
}

/// The alloc on the device all of which the buffer is; null if there is none.
sched::AllocOp OperandReuser::findWhole(Value buffer) const {
  BufferRange range = getRange(buffer);
  auto alloc = range.root.getDefiningOp<sched::AllocOp>();
  // A part that starts where the rank's coordinate says has the whole range.
  bool isWhole = alloc && isAsLarge(buffer, alloc.getBuffer()) &&
                 range == getRange(alloc.getBuffer()) &&
                 !alloc->hasAttr(sched::kHostBufferAttrName);
  return isWhole ? alloc : sched::AllocOp();
}

/// Whether the command is the last one that uses it, and only reads it. What
/// lives in several iterations of a loop stays as it is.
bool OperandReuser::isDone(sched::AllocOp operand, Operation *command) const {
  return llvm::all_of(
      accesses.at(operand.getBuffer()), [&](const Access &access) {
        bool isBefore = order.happensBefore(access.command, command);
        return (access.command == command ? !access.isWrite : isBefore) &&
               order.getLoop(access.command) == order.getLoop(command);
      });
}

/// Whether the command is the first one that uses it, and only writes it.
bool OperandReuser::isBegun(sched::AllocOp result, Operation *command) const {
  return llvm::all_of(
      accesses.at(result.getBuffer()), [&](const Access &access) {
        bool isBehind = order.happensBefore(command, access.command);
        return (access.command == command ? access.isWrite : isBehind) &&
               order.getLoop(access.command) == order.getLoop(command);
      });
}

bool OperandReuser::mayWriteOver(sched::AllocOp operand, sched::LaunchOp launch,
                                 unsigned output) {
  auto kernel = symbols.lookupNearestSymbolFrom<func::FuncOp>(
      launch, launch.getKernelAttr());
  for (auto [i, input] : llvm::enumerate(launch.getInputs()))
    if (getRange(input).root == operand.getBuffer() &&
        (findWhole(input) != operand || !mayAlias(kernel, i, output)))
      return false;
  return isDone(operand, launch);
}

/// The uses of the result are now uses of the operand.
void OperandReuser::join(sched::AllocOp operand, sched::AllocOp result) {
  Value place = operand.getBuffer();
  if (Operation *first = &operand->getBlock()->front(); first != operand)
    operand->moveBefore(first);
  if (place.getType() != result.getBuffer().getType()) {
    OpBuilder builder(operand->getContext());
    builder.setInsertionPointAfter(operand);
    place =
        sched::ViewOp::create(builder, result.getLoc(), result.getType(), place,
                              0, builder.getArrayAttr({}), ArrayRef<int64_t>());
  }
  SmallVector<Access> moved = accesses.at(result.getBuffer());
  accesses.erase(result.getBuffer());
  for (Access &access : moved)
    access.range.root = operand.getBuffer();
  accesses[operand.getBuffer()].append(moved);
  result.getBuffer().replaceAllUsesWith(place);
  result.erase();
}

void OperandReuser::reuse(sched::LaunchOp launch) {
  for (auto [output, written] : llvm::enumerate(launch.getOutputs())) {
    sched::AllocOp result = findWhole(written);
    if (!result || !isBegun(result, launch))
      continue;
    for (Value input : launch.getInputs()) {
      sched::AllocOp operand = findWhole(input);
      if (operand && mayWriteOver(operand, launch, output)) {
        join(operand, result);
        break;
      }
    }
  }
}

/// An all-reduce is the only collective that may work in place.
void OperandReuser::reuse(sched::CollectiveOp collective) {
  if (collective.getKind() != sched::CollectiveKind::AllReduce)
    return;
  sched::AllocOp operand = findWhole(collective.getSource()),
                 result = findWhole(collective.getDestination());
  if (operand && result && isDone(operand, collective) &&
      isBegun(result, collective))
    join(operand, result);
}

namespace {
struct ReuseOperandsPass : impl::ReuseOperandsBase<ReuseOperandsPass> {
  void runOnOperation() override {
    func::FuncOp function = getStepFunction(getOperation());
    if (!function || failed(verifyCommands(function)))
      return signalPassFailure();
    OperandReuser reuser(function);
    for (Operation &op : function.getBody().front())
      if (auto launch = dyn_cast<sched::LaunchOp>(op))
        reuser.reuse(launch);
      else if (auto collective = dyn_cast<sched::CollectiveOp>(op))
        reuser.reuse(collective);
  }
};
} // namespace

} // namespace tandem::lower
