//===- MarkJoins.cpp - marks of joined strands ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Duplex/Duplex.h"
#include "tandem/Transforms/StepPass.h"
#include "llvm/ADT/DenseSet.h"

namespace tandem {
#define GEN_PASS_DEF_MARKJOINSPASS
#include "tandem/Transforms/Duplex/Passes.h.inc"
} // namespace tandem

using namespace mlir;

namespace {
struct MarkJoinsPass
    : tandem::StepPass<tandem::impl::MarkJoinsPassBase<MarkJoinsPass>> {
  using StepPass::StepPass;
  LogicalResult runOnStep(func::FuncOp step) override;
};
} // namespace

LogicalResult MarkJoinsPass::runOnStep(func::FuncOp step) {
  // Operators that a strand's work depends on.
  llvm::DenseSet<Operation *> needed;
  Block &block = step.getBody().front();
  for (Operation &op : llvm::reverse(block)) {
    bool isNeeded = llvm::any_of(op.getUsers(), [&](Operation *user) {
      return tandem::nn::getStrand(user) || needed.contains(user);
    });
    if (isNeeded)
      needed.insert(&op);
    else
      op.removeAttr(tandem::nn::kJoinAttrName);
  }
  if (!report)
    return success();
  for (Operation &op : block)
    if (auto form = op.getAttrOfType<StringAttr>(tandem::nn::kJoinAttrName))
      op.emitRemark() << "strands join here: " << form.getValue();
  return success();
}
