//===- VerifySharded.cpp - the exit of the shard stage --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/StepFacts.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Shard/Shard.h"
#include "tandem/Transforms/StepPass.h"

namespace tandem {
#define GEN_PASS_DEF_VERIFYSHARDEDPASS
#include "tandem/Transforms/Shard/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem::spmd;
using namespace tandem::nn;

namespace {
/// Operators check their forms themselves; this checks what no operator sees.
class VerifyShardedPass
    : public tandem::StepPass<
          tandem::impl::VerifyShardedPassBase<VerifyShardedPass>> {
public:
  LogicalResult runOnStep(func::FuncOp step) override {
    mesh = getMesh(step);
    if (!mesh)
      return step.emitError()
             << "the module has no '" << kMeshAttrName << "', expected a mesh";
    if (failed(tandem::verifyForms(step, mesh, tandem::FormsLeft::All)) ||
        failed(tandem::verifyNoLayouts(step)) ||
        failed(tandem::verifyDeclared(step)) ||
        failed(tandem::verifyPasses(step)) || failed(verifyArguments(step)) ||
        failed(verifyResults(step)))
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
                             std::optional<Role> role, Type type);

  MeshAttr mesh;
};
} // namespace

LogicalResult VerifyShardedPass::verifyOperator(Operation *op) {
  if (Planned planned = getPlanned(op); planned.signatures || planned.asWanted)
    return op->emitError() << "still has signatures in '" << kPlanAttrName
                           << "', expected them in the types";
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
                                              const Twine &what,
                                              std::optional<Role> role,
                                              Type type) {
  Forms forms = getForms(type, mesh);
  for (auto [axis, form] : llvm::enumerate(forms)) {
    if (form.isReduce())
      return step.emitError()
             << what << " is 'reduce' on axis '" << mesh.getName(axis)
             << "', expected full or gather";
    bool isOnce = role && *role < Role::Input;
    if (isOnce && mesh.isTime(axis) && !form.isFull())
      return step.emitError()
             << what << ", a " << stringifyRole(*role) << ", is '" << form.str()
             << "' on the time axis '" << mesh.getName(axis)
             << "', expected full: an update happens once per step";
  }
  return success();
}

LogicalResult VerifyShardedPass::verifyArguments(func::FuncOp step) {
  for (BlockArgument argument : step.getArguments()) {
    unsigned index = argument.getArgNumber();
    if (failed(verifyStored(step, "argument " + Twine(index),
                            getRole(step.getArgAttrDict(index)),
                            argument.getType())))
      return failure();
  }
  return success();
}

LogicalResult VerifyShardedPass::verifyResults(func::FuncOp step) {
  for (auto [index, type] : llvm::enumerate(step.getResultTypes())) {
    if (failed(verifyStored(step, "result " + Twine(index),
                            getRole(step.getResultAttrDict(index)), type)))
      return failure();
  }
  return success();
}
