//===- VerifyLocalized.cpp - the exit of the localize stage ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

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

private:
  LogicalResult verifyLayout(func::FuncOp step, const Twine &what,
                             Attribute layout, Type type);
  LogicalResult verifySignature(func::FuncOp step);

  MeshAttr mesh, timeMesh;
};
} // namespace

/// `layout` is the global tensor; what one device holds of it has `type`.
LogicalResult VerifyLocalizedPass::verifyLayout(func::FuncOp step,
                                                const Twine &what,
                                                Attribute layout, Type type) {
  auto global = dyn_cast_or_null<TypeAttr>(layout);
  auto tensor =
      global ? dyn_cast<RankedTensorType>(global.getValue()) : nullptr;
  if (!tensor)
    return step.emitError() << what << " has no 'spmd.layout', expected the "
                            << "type of the global tensor";
  auto form = dyn_cast_or_null<FormAttr>(tensor.getEncoding());
  if (form && form.getMesh() != mesh)
    return step.emitError() << what << " has the layout " << tensor
                            << ", expected a form on the mesh " << mesh;
  auto local = cast<RankedTensorType>(type);
  Forms forms = getForms(tensor, mesh);
  auto expected =
      getLocalShape(tensor.getShape(), mesh, forms, AxisKind::Space);
  if (local.getShape() == ArrayRef(expected) &&
      getForms(local, timeMesh) ==
          Forms(ArrayRef(forms).drop_front(mesh.getNumSpaceAxes())))
    return success();
  return step.emitError() << what << " has the type " << type
                          << ", which is no device's part of its layout "
                          << tensor;
}

LogicalResult VerifyLocalizedPass::verifySignature(func::FuncOp step) {
  for (auto [index, type] : llvm::enumerate(step.getArgumentTypes()))
    if (failed(verifyLayout(step, "argument " + Twine(index),
                            step.getArgAttr(index, kLayoutAttrName), type)))
      return failure();
  for (auto [index, type] : llvm::enumerate(step.getResultTypes()))
    if (failed(verifyLayout(step, "result " + Twine(index),
                            step.getResultAttr(index, kLayoutAttrName), type)))
      return failure();
  return success();
}

LogicalResult VerifyLocalizedPass::runOnStep(func::FuncOp step) {
  mesh = getMesh(step);
  timeMesh = mesh ? mesh.getTimeOnly() : MeshAttr();
  if (!mesh)
    return step.emitError()
           << "the module has no '" << kMeshAttrName << "', expected a mesh";
  if (failed(tandem::verifyFormsOn(step, timeMesh)) ||
      failed(verifySignature(step)))
    return failure();
  return tandem::verifyUnscheduled(step);
}
