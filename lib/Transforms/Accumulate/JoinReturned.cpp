//===- JoinReturned.cpp - results of joined rows --------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A variance that is returned reads rows and their mean: a loop that made it
// would make the rows again, behind the loop that made the mean. As nothing in
// a loop needs it, it is made once, of all rows, when they are there.
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/StepAttrs.h"
#include "tandem/Analysis/TensorType.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Accumulate/Accumulate.h"
#include "tandem/Transforms/StepPass.h"
#include "llvm/ADT/DenseSet.h"

namespace tandem {
#define GEN_PASS_DEF_JOINRETURNEDPASS
#include "tandem/Transforms/Accumulate/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;

namespace {
using OpSet = llvm::DenseSet<Operation *>;

struct JoinReturnedPass
    : StepPass<tandem::impl::JoinReturnedPassBase<JoinReturnedPass>> {
  LogicalResult runOnStep(func::FuncOp step) override;
};
} // namespace

static bool isWhole(Value value) { return !getTensorType(value).getEncoding(); }

/// What results alone are for, and no update.
static OpSet findReturned(Block &block) {
  OpSet returned;
  for (Operation &op : llvm::reverse(block)) {
    auto isReturned = [&](Operation *user) {
      return user->hasTrait<OpTrait::IsTerminator>() || returned.contains(user);
    };
    bool isForward =
        isa<ReformOp>(op) || nn::getPass(&op) == nn::PassKind::Forward;
    if (isForward && llvm::all_of(op.getUsers(), isReturned))
      returned.insert(&op);
  }
  return returned;
}

/// Whether a product of rows leads to `value`.
static bool needsProduct(Value value) {
  OpSet seen;
  SmallVector<Value> todo{value};
  while (!todo.empty()) {
    Value next = todo.pop_back_val();
    Operation *op = next.getDefiningOp();
    if (!op || isWhole(next) || !seen.insert(op).second)
      continue;
    if (isa<nn::LibraryOpInterface>(op))
      return true;
    llvm::append_range(todo, op->getOperands());
  }
  return false;
}

/// Lets `op` take and make whole tensors.
static void makeWhole(Operation *op) {
  OpBuilder before(op);
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    if (isWhole(value))
      continue;
    auto whole = ReformOp::create(before, value.getLoc(),
                                  withoutForms(getTensorType(value)), value);
    nn::copyPass(op, whole);
    operand.set(whole);
  }
  for (Value result : op->getResults())
    result.setType(withoutForms(getTensorType(result)));
}

/// Changes of form that `makeWhole` has left nothing to change.
static void removeUnchanging(Block &block) {
  for (auto reform : llvm::make_early_inc_range(block.getOps<ReformOp>())) {
    if (reform.getInput().getType() != reform.getType())
      continue;
    reform.getResult().replaceAllUsesWith(reform.getInput());
    reform.erase();
  }
}

LogicalResult JoinReturnedPass::runOnStep(func::FuncOp step) {
  Block &block = step.getBody().front();
  OpSet returned = findReturned(block);
  llvm::DenseSet<Value> joined;
  for (Operation &op : block) {
    if (op.hasTrait<OpTrait::IsTerminator>())
      break;
    bool isJoined = (isa<ReformOp>(op) && needsProduct(op.getOperand(0))) ||
                    llvm::any_of(op.getOperands(), [&](Value value) {
                      return joined.contains(value);
                    });
    if (!isJoined)
      continue;
    bool isJoin = isa<ReformOp>(op) && isWhole(op.getResult(0));
    if (!isJoin && returned.contains(&op))
      makeWhole(&op);
    joined.insert_range(op.getResults());
  }
  removeUnchanging(block);
  return success();
}
