//===- VerifyPlan.cpp - the exit of the plan stage ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/StepBody.h"
#include "tandem/Analysis/StepFacts.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Plan/Plan.h"

namespace tandem {
#define GEN_PASS_DEF_VERIFYPLANPASS
#include "tandem/Transforms/Plan/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;

namespace {
struct VerifyPlanPass : tandem::impl::VerifyPlanPassBase<VerifyPlanPass> {
  void runOnOperation() override;
};
} // namespace

/// What is made as wanted depends on no tensor that is stored or given.
static LogicalResult verifyWanted(Operation &op) {
  auto isScalar = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getRank() == 0;
  };
  bool isSource = llvm::all_of(op.getOperands(), [&](Value operand) {
    Operation *producer = operand.getDefiningOp();
    return producer ? getPlanned(producer).asWanted : isScalar(operand);
  });
  if (isSource)
    return success();
  return emitError(op.getLoc())
         << op.getName() << " is planned 'as_wanted', expected signatures, "
         << "since it depends on tensors of the step";
}

static LogicalResult verifyOperator(Operation &op, MeshAttr mesh) {
  auto interface = dyn_cast<SignatureOpInterface>(op);
  if (!interface)
    return emitError(op.getLoc())
           << op.getName() << " has no rule, expected an operator of nn";
  Planned planned = getPlanned(&op);
  if (planned.asWanted)
    return verifyWanted(op);
  SignaturesAttr signatures = planned.signatures;
  unsigned numAxes = signatures ? signatures.getNumAxes() : 0;
  if (numAxes != mesh.getNumAxes())
    return emitError(op.getLoc())
           << op.getName() << " has " << numAxes
           << " signatures, expected one per axis of " << mesh;
  Rule rule = interface.getRule();
  for (unsigned axis : mesh.getLayoutOrder()) {
    Signature signature = signatures.getSignature(axis);
    if (succeeded(rule.split(signature, mesh.getSize(axis))))
      continue;
    return emitError(op.getLoc())
           << op.getName() << " has no signature '" << signature.str()
           << "' on axis '" << mesh.getName(axis) << "' of size "
           << mesh.getSize(axis) << rule.explain(signature);
  }
  return success();
}

/// A search puts operators into stages in an order in which they can run.
static LogicalResult verifyStage(Operation &op) {
  std::optional<int64_t> stage = getPlannedStage(&op);
  if (!stage)
    return success();
  for (Value operand : op.getOperands()) {
    Operation *producer = operand.getDefiningOp();
    std::optional<int64_t> made =
        producer ? getPlannedStage(producer) : std::nullopt;
    if (made && *made > *stage)
      return emitError(op.getLoc())
             << op.getName() << " is in stage " << *stage
             << ", but reads what stage " << *made
             << " makes, expected a stage of the plan from there on";
  }
  return success();
}

static LogicalResult verifyForm(func::FuncOp step, FormAttr form, Type type,
                                MeshAttr mesh, const Twine &what) {
  if (!form)
    return success();
  if (form.getMesh() != mesh)
    return emitError(step.getLoc())
           << what << " has the form " << form << ", expected one on " << mesh;
  Forms forms;
  for (int64_t code : form.getCodes())
    forms.push_back(AxisForm::fromCode(code));
  std::string reason;
  if (canHaveForms(cast<RankedTensorType>(type), mesh, forms, &reason))
    return success();
  return emitError(step.getLoc()) << what << ": " << reason;
}

static LogicalResult verifyStep(func::FuncOp step, MeshAttr mesh) {
  if (failed(verifyStepBody(step)) || failed(verifyUnscheduled(step)) ||
      failed(verifyNoLayouts(step)) || failed(verifyDeclared(step)) ||
      failed(verifyPasses(step)))
    return failure();
  for (unsigned i = 0; i < step.getNumArguments(); ++i)
    if (failed(verifyForm(step, getPlannedArg(step, i).form,
                          step.getArgumentTypes()[i], mesh,
                          "argument " + Twine(i))))
      return failure();
  for (unsigned i = 0; i < step.getNumResults(); ++i)
    if (failed(verifyForm(step, getPlannedResult(step, i).form,
                          step.getResultTypes()[i], mesh,
                          "result " + Twine(i))))
      return failure();
  for (Operation &op : step.getBody().front().without_terminator())
    if (failed(verifyOperator(op, mesh)) || failed(verifyStage(op)))
      return failure();
  return success();
}

void VerifyPlanPass::runOnOperation() {
  MeshAttr mesh = getMesh(getOperation());
  auto step = getOperation().lookupSymbol<func::FuncOp>("step");
  if (!mesh || !step) {
    emitError(getOperation().getLoc())
        << "the module has no " << (mesh ? "function @step" : "'spmd.mesh'")
        << ": run the plan stage first";
    return signalPassFailure();
  }
  if (failed(verifyStep(step, mesh)))
    signalPassFailure();
}
