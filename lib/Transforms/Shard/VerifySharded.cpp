//===- VerifySharded.cpp - the exit of the shard stage --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Shard/Shard.h"
#include "tandem/Transforms/StepPass.h"

using namespace mlir;
using namespace tandem::spmd;
using tandem::nn::NNDialect;

namespace {
/// Operators check their forms themselves; this checks what no operator sees.
class VerifyShardedPass : public tandem::StepPass<VerifyShardedPass> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VerifyShardedPass)
  StringRef getArgument() const override { return "tandem-verify-sharded"; }
  StringRef getDescription() const override {
    return "Checks the exit of the shard stage: one mesh, legal reforms of one "
           "axis, states that are full over time";
  }
  LogicalResult runOnStep(func::FuncOp step) override {
    mesh = getMesh(step);
    if (!mesh)
      return step.emitError()
             << "the module has no '" << SPMDDialect::kMeshAttrName
             << "', expected a mesh";
    if (failed(tandem::verifyFormsOn(step, mesh)) ||
        failed(verifyArguments(step)) || failed(verifyResults(step)))
      return failure();
    for (Operation &op : step.getBody().front().without_terminator())
      if (failed(verifyOperator(&op)))
        return failure();
    return success();
  }

private:
  LogicalResult verifyOperator(Operation *op);
  LogicalResult verifyArguments(func::FuncOp step);
  LogicalResult verifyResults(func::FuncOp step);
  LogicalResult verifyStored(func::FuncOp step, const Twine &what,
                             StringRef role, Type type);

  MeshAttr mesh;
};
} // namespace

LogicalResult VerifyShardedPass::verifyOperator(Operation *op) {
  if (op->hasAttr(SPMDDialect::kSignatureAttrName))
    return op->emitError() << "still has '" << SPMDDialect::kSignatureAttrName
                           << "', expected it in the types";
  auto reform = dyn_cast<ReformOp>(op);
  if (!reform)
    return isa<SignatureOpInterface>(op)
               ? success()
               : op->emitError()
                     << "operator '" << op->getName().getStringRef()
                     << "' has no signatures, expected operators of nn";
  std::string reason;
  if (getReformedAxis(mesh, getForms(reform.getInput().getType(), mesh),
                      getForms(reform.getType(), mesh), &reason))
    return success();
  return reform.emitError() << "reform is no single collective: " << reason;
}

/// What is stored between steps is whole over time: an update happens once.
LogicalResult VerifyShardedPass::verifyStored(func::FuncOp step,
                                              const Twine &what, StringRef role,
                                              Type type) {
  Forms forms = getForms(type, mesh);
  for (auto [axis, form] : llvm::enumerate(forms)) {
    if (form.isReduce())
      return step.emitError()
             << what << " is 'reduce' on axis '" << mesh.getName(axis)
             << "', expected full or gather";
    bool isOnce = role != "input" && role != "loss" && role != "gradient" &&
                  role != "output";
    if (isOnce && mesh.isTime(axis) && !form.isFull())
      return step.emitError()
             << what << ", a " << role << ", is '" << form.str()
             << "' on the time axis '" << mesh.getName(axis)
             << "', expected full: an update happens once per step";
  }
  return success();
}

static StringRef getString(Attribute attribute) {
  auto string = dyn_cast_or_null<StringAttr>(attribute);
  return string ? string.getValue() : "";
}

LogicalResult VerifyShardedPass::verifyArguments(func::FuncOp step) {
  for (BlockArgument argument : step.getArguments()) {
    unsigned index = argument.getArgNumber();
    StringRef role =
        getString(step.getArgAttr(index, NNDialect::kRoleAttrName));
    if (failed(verifyStored(step, "argument " + Twine(index), role,
                            argument.getType())))
      return failure();
  }
  return success();
}

LogicalResult VerifyShardedPass::verifyResults(func::FuncOp step) {
  for (auto [index, type] : llvm::enumerate(step.getResultTypes())) {
    StringRef role =
        getString(step.getResultAttr(index, NNDialect::kRoleAttrName));
    if (failed(verifyStored(step, "result " + Twine(index), role, type)))
      return failure();
  }
  return success();
}

std::unique_ptr<Pass> tandem::createVerifyShardedPass() {
  return std::make_unique<VerifyShardedPass>();
}
