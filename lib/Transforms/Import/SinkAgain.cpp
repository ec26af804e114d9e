//===- SinkAgain.cpp - recomputation at its first reader ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Import/Import.h"
#include "tandem/Transforms/StepPass.h"

namespace tandem {
#define GEN_PASS_DEF_SINKAGAINPASS
#include "tandem/Transforms/Import/Passes.h.inc"
} // namespace tandem

using namespace mlir;

namespace {
/// Capture has a checkpointed region where eager runs it again: as a whole,
/// before the first gradient that needs any of it.
struct SinkAgainPass
    : tandem::StepPass<tandem::impl::SinkAgainPassBase<SinkAgainPass>> {
  LogicalResult runOnStep(func::FuncOp step) override;
};
} // namespace

static Operation *findFirstReader(Operation *op) {
  Operation *first = nullptr;
  for (Operation *reader : op->getUsers())
    if (!first || reader->isBeforeInBlock(first))
      first = reader;
  return first;
}

LogicalResult SinkAgainPass::runOnStep(func::FuncOp step) {
  // From the last one on: what a clone reads goes to where the clone is.
  Block &block = step.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (!tandem::nn::isAgain(&op))
      continue;
    if (Operation *reader = findFirstReader(&op))
      op.moveBefore(reader);
    else
      op.erase();
  }
  return success();
}
