//===- VerifyDuplexed.cpp - the exit of the duplex stage ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/Loops.h"
#include "tandem/Analysis/StepFacts.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Duplex/Duplex.h"
#include "tandem/Transforms/StepPass.h"

namespace tandem {
#define GEN_PASS_DEF_VERIFYDUPLEXEDPASS
#include "tandem/Transforms/Duplex/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem::spmd;

namespace {
class VerifyDuplexedPass
    : public tandem::StepPass<
          tandem::impl::VerifyDuplexedPassBase<VerifyDuplexedPass>> {
public:
  LogicalResult runOnStep(func::FuncOp step) override;

private:
  LogicalResult verifyOperator(Operation *op);
};
} // namespace

LogicalResult VerifyDuplexedPass::verifyOperator(Operation *op) {
  if (isa<ReformOp>(op))
    return op->emitError() << "a reform is left, expected additions, slices "
                           << "and concatenations";
  if (failed(tandem::verifyUnscheduled(op)))
    return failure();
  if (Planned planned = getPlanned(op); planned.signatures || planned.asWanted)
    return op->emitError() << "has signatures in '" << kPlanAttrName
                           << "', expected none: run the stages shard, "
                           << "localize and duplex first";
  return success();
}

LogicalResult VerifyDuplexedPass::runOnStep(func::FuncOp step) {
  MeshAttr mesh = getMesh(step);
  if (failed(tandem::verifyForms(step, mesh, tandem::FormsLeft::At)))
    return failure();
  for (Operation &op : step.getBody().front().without_terminator())
    if (failed(verifyOperator(&op)))
      return failure();
  if (failed(tandem::verifyDeclared(step)) ||
      failed(tandem::verifyLoops(step)) || failed(tandem::verifyPasses(step)) ||
      failed(tandem::verifyStrands(step)))
    return failure();
  return tandem::verifyLayouts(step, mesh);
}
