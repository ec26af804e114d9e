//===- VerifyPlan.cpp - the exit of the plan stage ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanFile.h"
#include "tandem/Analysis/PlannedOrder.h"
#include "tandem/Analysis/StepBody.h"
#include "tandem/Transforms/Plan/Plan.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

namespace {
struct VerifyPlanPass : PassWrapper<VerifyPlanPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VerifyPlanPass)
  StringRef getArgument() const override { return "tandem-verify-plan"; }
  StringRef getDescription() const override {
    return "Checks that each operator's signatures come from its rule";
  }
  void runOnOperation() override;
};
} // namespace

static FailureOr<Signature> parseSignature(Operation *op, StringRef text) {
  auto signature = plan::parseSignature(text);
  if (signature && signature->operands.size() == op->getNumOperands() &&
      signature->results.size() == op->getNumResults())
    return *signature;
  return emitError(op->getLoc())
         << op->getName() << " has the signature '" << text << "', expected "
         << op->getNumOperands() << " operands and " << op->getNumResults()
         << " results";
}

static LogicalResult verifyOperator(Operation &op, MeshAttr mesh) {
  auto texts = op.getAttrOfType<ArrayAttr>(SPMDDialect::kSignatureAttrName);
  if (!texts || texts.size() != mesh.getNumAxes())
    return emitError(op.getLoc())
           << op.getName() << " has " << (texts ? texts.size() : 0)
           << " signatures, expected one per axis of " << mesh;
  auto interface = dyn_cast<SignatureOpInterface>(op);
  if (!interface)
    return emitError(op.getLoc())
           << op.getName() << " has no rule, expected an operator of nn";
  Rule rule = interface.getRule();
  for (unsigned axis : mesh.getLayoutOrder()) {
    auto string = dyn_cast<StringAttr>(texts[axis]);
    StringRef text = string ? string.getValue() : "";
    FailureOr<Signature> signature = parseSignature(&op, text);
    if (failed(signature))
      return failure();
    if (succeeded(rule.split(*signature, mesh.getSize(axis))))
      continue;
    return emitError(op.getLoc())
           << op.getName() << " has no signature '" << text << "' on axis '"
           << mesh.getName(axis) << "' of size " << mesh.getSize(axis);
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

static LogicalResult verifyForm(func::FuncOp step, Attribute attribute,
                                Type type, MeshAttr mesh, const Twine &what) {
  if (!attribute)
    return success();
  auto form = dyn_cast<FormAttr>(attribute);
  if (!form || form.getMesh() != mesh)
    return emitError(step.getLoc()) << what << " has the form " << attribute
                                    << ", expected one on " << mesh;
  Forms forms;
  for (int64_t code : form.getCodes())
    forms.push_back(AxisForm::fromCode(code));
  std::string reason;
  if (canHaveForms(cast<RankedTensorType>(type), mesh, forms, &reason))
    return success();
  return emitError(step.getLoc()) << what << ": " << reason;
}

static LogicalResult verifyStep(func::FuncOp step, MeshAttr mesh) {
  if (failed(verifyStepBody(step)) || failed(verifyUnscheduled(step)))
    return failure();
  for (unsigned i = 0; i < step.getNumArguments(); ++i)
    if (failed(verifyForm(step, step.getArgAttr(i, kFormAttrName),
                          step.getArgumentTypes()[i], mesh,
                          "argument " + Twine(i))))
      return failure();
  for (unsigned i = 0; i < step.getNumResults(); ++i)
    if (failed(verifyForm(step, step.getResultAttr(i, kFormAttrName),
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

std::unique_ptr<Pass> tandem::createVerifyPlanPass() {
  return std::make_unique<VerifyPlanPass>();
}
