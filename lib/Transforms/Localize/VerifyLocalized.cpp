//===- VerifyLocalized.cpp - the exit of the localize stage ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/StepBody.h"
#include "tandem/Analysis/StepFacts.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Localize/Localize.h"
#include "tandem/Transforms/StepPass.h"

namespace tandem {
#define GEN_PASS_DEF_VERIFYLOCALIZEDPASS
#include "tandem/Transforms/Localize/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem::spmd;

namespace {
class VerifyLocalizedPass
    : public tandem::StepPass<
          tandem::impl::VerifyLocalizedPassBase<VerifyLocalizedPass>> {
public:
  LogicalResult runOnStep(func::FuncOp step) override;
};
} // namespace

LogicalResult VerifyLocalizedPass::runOnStep(func::FuncOp step) {
  MeshAttr mesh = getMesh(step);
  if (!mesh)
    return step.emitError()
           << "the module has no '" << kMeshAttrName << "', expected a mesh";
  if (failed(tandem::verifyForms(step, mesh, tandem::FormsLeft::TimeAndAt)) ||
      failed(tandem::verifyLayouts(step, mesh, /*hasTime=*/true,
                                   /*ofAll=*/true)) ||
      failed(tandem::verifyUnscheduled(step)) ||
      failed(tandem::verifyDeclared(step)) ||
      failed(tandem::verifyPasses(step)))
    return failure();
  for (Operation &op : step.getBody().front())
    if (auto strand = tandem::nn::getStrand(&op))
      return op.emitError()
             << "has the '" << tandem::nn::kStrandAttrName << "' " << *strand
             << " that duplex writes, expected none";
  return success();
}
