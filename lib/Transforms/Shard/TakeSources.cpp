//===- TakeSources.cpp - the sources that readers take --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Shard/Shard.h"
#include "tandem/Transforms/StepPass.h"
#include "llvm/ADT/DenseSet.h"

namespace tandem {
#define GEN_PASS_DEF_TAKESOURCESPASS
#include "tandem/Transforms/Shard/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem::nn;

namespace {
struct TakeSourcesPass
    : tandem::StepPass<tandem::impl::TakeSourcesPassBase<TakeSourcesPass>> {
  LogicalResult runOnStep(func::FuncOp step) override;

private:
  void take(EitherOp either);
  void addMakers(Operation *reader);

  /// What lost a reader.
  llvm::DenseSet<Operation *> losers;
};
} // namespace

void TakeSourcesPass::addMakers(Operation *reader) {
  for (Value operand : reader->getOperands())
    if (Operation *maker = operand.getDefiningOp())
      losers.insert(maker);
}

void TakeSourcesPass::take(EitherOp either) {
  addMakers(either);
  either.replaceAllUsesWith(either.getSources()[getSource(either)]);
  either.erase();
}

LogicalResult TakeSourcesPass::runOnStep(func::FuncOp step) {
  losers.clear();
  Block &block = step.getBody().front();
  for (EitherOp either : llvm::make_early_inc_range(block.getOps<EitherOp>()))
    take(either);
  // Readers first: what one is made of loses it as a reader.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    bool isAsked = isAgain(&op) || losers.contains(&op);
    if (!isAsked || !isOpTriviallyDead(&op))
      continue;
    addMakers(&op);
    op.erase();
  }
  return success();
}
