//===- VerifyDuplexed.cpp - the exit of the duplex stage ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Duplex/Duplex.h"
#include "tandem/Transforms/StepPass.h"

using namespace mlir;
using namespace tandem::spmd;

namespace {
class VerifyDuplexedPass : public tandem::StepPass<VerifyDuplexedPass> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VerifyDuplexedPass)
  StringRef getArgument() const override { return "tandem-verify-duplexed"; }
  StringRef getDescription() const override {
    return "Checks the exit of the duplex stage: plain tensors, strands of the "
           "mesh, updates once";
  }
  LogicalResult runOnStep(func::FuncOp step) override;

private:
  LogicalResult verifyOperator(Operation *op);

  int64_t strands = 1;
};
} // namespace

LogicalResult VerifyDuplexedPass::verifyOperator(Operation *op) {
  if (isa<ReformOp>(op))
    return op->emitError() << "a reform is left, expected additions, slices "
                           << "and concatenations";
  if (failed(tandem::verifyUnscheduled(op)))
    return failure();
  if (op->hasAttr(SPMDDialect::kSignatureAttrName))
    return op->emitError() << "has '" << SPMDDialect::kSignatureAttrName
                           << "', expected none: run the stages shard, "
                           << "localize and duplex first";
  Attribute attribute = op->getAttr("nn.strand");
  if (!attribute)
    return success();
  auto strand = dyn_cast<IntegerAttr>(attribute);
  if (!strand || strand.getInt() < 0 || strand.getInt() >= strands)
    return op->emitError() << "has the strand " << attribute
                           << ", expected one of " << strands << " from 0 on";
  return success();
}

LogicalResult VerifyDuplexedPass::runOnStep(func::FuncOp step) {
  MeshAttr mesh = getMesh(step);
  strands = mesh ? mesh.getNumStrands() : 1;
  if (failed(tandem::verifyFormsOn(step, MeshAttr())))
    return failure();
  for (Operation &op : step.getBody().front().without_terminator())
    if (failed(verifyOperator(&op)))
      return failure();
  return success();
}

std::unique_ptr<Pass> tandem::createVerifyDuplexedPass() {
  return std::make_unique<VerifyDuplexedPass>();
}
