//===- FetchParameters.cpp - parameters that lie on the host --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/Host.h"
#include "tandem/Dialect/SPMD/Host.h"
#include "tandem/Transforms/Import/Import.h"
#include "tandem/Transforms/StepPass.h"
#include "llvm/ADT/DenseSet.h"

namespace tandem {
#define GEN_PASS_DEF_FETCHPARAMETERSPASS
#include "tandem/Transforms/Import/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem::nn;

namespace {
struct FetchParametersPass
    : tandem::StepPass<
          tandem::impl::FetchParametersPassBase<FetchParametersPass>> {
  LogicalResult runOnStep(func::FuncOp step) override;

private:
  void visit(Block &block);
  void shareCasts(BlockArgument argument);
  void fetch(BlockArgument argument);
  void fetch(PassKind pass, ArrayRef<OpOperand *> uses);
  bool isOptional(Operation *op) const { return optional.contains(op); }

  std::optional<int64_t> next; ///< The next number, if operators have some.
  llvm::DenseSet<Operation *> optional; ///< Clones that are offered.
};
} // namespace

static Operation *findFirst(ArrayRef<OpOperand *> uses) {
  Operation *first = uses.front()->getOwner();
  for (OpOperand *use : uses)
    if (use->getOwner()->isBeforeInBlock(first))
      first = use->getOwner();
  return first;
}

static PassKind getPassOf(Operation *op) {
  return getPass(op).value_or(PassKind::Forward);
}

/// Finds the next number, and the clones that a plan may leave out.
void FetchParametersPass::visit(Block &block) {
  next = std::nullopt;
  optional.clear();
  for (Operation &op : llvm::reverse(block)) {
    if (std::optional<int64_t> id = getId(&op))
      next = std::max(next.value_or(0), *id + 1);
    auto leavesOut = [&](Operation *user) {
      return (isa<EitherOp>(user) && !isAgain(user)) || isOptional(user);
    };
    if (isAgain(&op) && llvm::all_of(op.getUsers(), leavesOut))
      optional.insert(&op);
  }
}

/// The backward pass reads the casts that the forward pass has made.
void FetchParametersPass::shareCasts(BlockArgument argument) {
  llvm::DenseMap<Type, Operation *> casts;
  SmallVector<Operation *> others;
  for (Operation *user : argument.getUsers())
    if (isa<ConvertOp>(user) && getPassOf(user) == PassKind::Forward)
      casts.try_emplace(user->getResult(0).getType(), user);
    else if (isa<ConvertOp>(user) && !isOptional(user) &&
             getPassOf(user) == PassKind::Backward)
      others.push_back(user);
  for (Operation *op : others)
    if (Operation *cast = casts.lookup(op->getResult(0).getType())) {
      op->replaceAllUsesWith(cast);
      op->erase();
    }
}

/// A plan that makes nothing again leaves out a copy for clones alone.
void FetchParametersPass::fetch(PassKind pass, ArrayRef<OpOperand *> uses) {
  Value stored = uses.front()->get();
  OpBuilder builder(findFirst(uses));
  auto fetched =
      FromHostOp::create(builder, stored.getLoc(), stored.getType(), stored);
  setPass(fetched, pass);
  if (llvm::all_of(uses,
                   [&](OpOperand *use) { return isOptional(use->getOwner()); }))
    fetched->setAttr(kAgainAttrName, builder.getUnitAttr());
  if (next)
    tandem::setInteger(fetched, kIdAttrName, (*next)++);
  for (OpOperand *use : uses)
    use->set(fetched);
}

void FetchParametersPass::fetch(BlockArgument argument) {
  for (PassKind pass : {PassKind::Forward, PassKind::Backward}) {
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : argument.getUses())
      if (!use.getOwner()->hasTrait<OpTrait::IsTerminator>() &&
          getPassOf(use.getOwner()) == pass)
        uses.push_back(&use);
    if (!uses.empty())
      fetch(pass, uses);
  }
}

LogicalResult FetchParametersPass::runOnStep(func::FuncOp step) {
  visit(step.getBody().front());
  for (BlockArgument argument : step.getArguments()) {
    unsigned index = argument.getArgNumber();
    if (!tandem::spmd::isOnHost(step, index) ||
        getRole(step.getArgAttrDict(index)) != Role::Parameter)
      continue;
    shareCasts(argument);
    fetch(argument);
    step.removeArgAttr(index, tandem::spmd::kHostAttrName);
  }
  return success();
}
