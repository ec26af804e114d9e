//===- VerifyDuplexed.cpp - the exit of the duplex stage ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Duplex/Duplex.h"

using namespace mlir;
using namespace tandem::spmd;

namespace {
class VerifyDuplexedPass
    : public PassWrapper<VerifyDuplexedPass, OperationPass<func::FuncOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VerifyDuplexedPass)
  StringRef getArgument() const override { return "tandem-verify-duplexed"; }
  StringRef getDescription() const override {
    return "Checks the exit of the duplex stage: plain tensors, strands of the "
           "mesh, updates once";
  }
  void runOnOperation() override;

private:
  LogicalResult verifyOperator(Operation *op);

  int64_t strands = 1;
};
} // namespace

static LogicalResult verifyPlain(Operation *op, TypeRange types) {
  for (Type type : types) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (tensor && tensor.getEncoding())
      return op->emitError() << "has a value of type " << type
                             << ", expected a tensor without a form";
  }
  return success();
}

LogicalResult VerifyDuplexedPass::verifyOperator(Operation *op) {
  if (failed(verifyPlain(op, op->getResultTypes())))
    return failure();
  if (isa<ReformOp>(op))
    return op->emitError() << "a reform is left, expected additions, slices "
                           << "and concatenations";
  Attribute attribute = op->getAttr("nn.strand");
  if (!attribute)
    return success();
  auto strand = dyn_cast<IntegerAttr>(attribute);
  if (!strand || strand.getInt() < 0 || strand.getInt() >= strands)
    return op->emitError() << "has the strand " << attribute
                           << ", expected one of " << strands << " from 0 on";
  return success();
}

void VerifyDuplexedPass::runOnOperation() {
  func::FuncOp step = getOperation();
  MeshAttr mesh = getMesh(step);
  strands = mesh ? mesh.getNumStrands() : 1;
  if (failed(verifyPlain(step, step.getArgumentTypes())))
    return signalPassFailure();
  for (Operation &op : step.getBody().front().without_terminator())
    if (failed(verifyOperator(&op)))
      return signalPassFailure();
}

std::unique_ptr<Pass> tandem::createVerifyDuplexedPass() {
  return std::make_unique<VerifyDuplexedPass>();
}
