//===- StepBody.cpp - checks of a step's body -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/StepBody.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/Sched/Sched.h"

using namespace mlir;
using namespace tandem;

/// Gets an operation, which of its values ("result 0"), and the value's type.
using TypeCheck =
    llvm::function_ref<LogicalResult(Operation *, const Twine &, Type)>;

//===----------------------------------------------------------------------===//
// Straight code
//===----------------------------------------------------------------------===//

static LogicalResult verifyRegions(Operation *op) {
  if (op->getNumRegions() == 0 || isa<sched::StepOp>(op))
    return success();
  return op->emitError() << "operator '" << op->getName().getStringRef()
                         << "' has a region, expected straight code";
}

/// Calls `check` on the results of all operators, those of steps included.
static LogicalResult checkResults(Block &block, TypeCheck check) {
  for (Operation &op : block) {
    if (failed(verifyRegions(&op)))
      return failure();
    for (auto [index, type] : llvm::enumerate(op.getResultTypes()))
      if (!isa<sched::EventType>(type) &&
          failed(check(&op, "result " + Twine(index), type)))
        return failure();
    if (auto step = dyn_cast<sched::StepOp>(op))
      if (failed(checkResults(step.getBody().front(), check)))
        return failure();
  }
  return success();
}

static LogicalResult checkTypes(func::FuncOp step, TypeCheck check) {
  for (auto [index, type] : llvm::enumerate(step.getArgumentTypes()))
    if (failed(check(step, "argument " + Twine(index), type)))
      return failure();
  for (auto [index, type] : llvm::enumerate(step.getResultTypes()))
    if (failed(check(step, "result " + Twine(index), type)))
      return failure();
  return checkResults(step.getBody().front(), check);
}

LogicalResult tandem::verifyUnscheduled(Operation *op) {
  if (isa_and_nonnull<nn::NNDialect, spmd::SPMDDialect>(op->getDialect()))
    return success();
  return op->emitError() << "operator '" << op->getName().getStringRef()
                         << "' in a step, expected operators of nn and spmd";
}

LogicalResult tandem::verifyUnscheduled(func::FuncOp step) {
  for (Operation &op : step.getBody().front().without_terminator())
    if (failed(verifyUnscheduled(&op)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

static LogicalResult verifyForm(Operation *op, const Twine &what,
                                spmd::FormAttr form, spmd::MeshAttr mesh) {
  if (!mesh)
    return op->emitError() << what << " has the form " << form
                           << ", but the module has no '" << spmd::kMeshAttrName
                           << "'";
  if (form.getMesh() == mesh)
    return success();
  return op->emitError() << what << " has a form on the mesh " << form.getMesh()
                         << ", expected the module's, " << mesh;
}

static LogicalResult verifyType(Operation *op, const Twine &what, Type type,
                                spmd::MeshAttr mesh) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return op->emitError() << what << " is a " << type
                           << ", expected a tensor of static shape";
  if (!tensor.getEncoding())
    return success();
  if (auto form = dyn_cast<spmd::FormAttr>(tensor.getEncoding()))
    return verifyForm(op, what, form, mesh);
  return op->emitError() << what << " has the encoding " << tensor.getEncoding()
                         << ", expected a form";
}

LogicalResult tandem::verifyStepBody(func::FuncOp step) {
  if (step.isExternal())
    return step.emitError() << "function @" << step.getName()
                            << " has no body, expected that of a step";
  if (!step.getBody().hasOneBlock())
    return step.emitError()
           << "function @" << step.getName() << " has "
           << step.getBody().getBlocks().size() << " blocks, expected one";
  spmd::MeshAttr mesh = spmd::getMesh(step);
  return checkTypes(step, [&](Operation *op, const Twine &what, Type type) {
    return verifyType(op, what, type, mesh);
  });
}

static LogicalResult verifyOnMesh(Operation *op, const Twine &what,
                                  spmd::FormAttr form, spmd::MeshAttr mesh) {
  if (form.getMesh() == mesh)
    return success();
  InFlightDiagnostic error = op->emitError()
                             << what << " has the form " << form;
  if (mesh)
    error << ", expected one on the mesh " << mesh;
  else
    error << ", expected none";
  return error;
}

static LogicalResult verifyLeft(Operation *op, const Twine &what,
                                spmd::FormAttr form, FormsLeft left) {
  spmd::MeshAttr mesh = form.getMesh();
  for (auto [axis, code] : llvm::enumerate(form.getCodes())) {
    auto own = spmd::AxisForm::fromCode(code);
    bool isTime = mesh.isTime(axis);
    if (own.isFull() || own.isAt() || left == FormsLeft::All ||
        (isTime && left == FormsLeft::TimeAndAt))
      continue;
    return op->emitError() << what << " has the form " << form
                           << ", expected 'full' on the "
                           << (isTime ? "time" : "space") << " axis '"
                           << mesh.getName(axis)
                           << (isTime ? "' behind duplex"
                                      : "', or 'at', behind localize");
  }
  return success();
}

namespace {
/// The first tensors that are `at` on each axis, and that are `gather`.
class Placements {
public:
  /// Checks that no axis has both.
  LogicalResult add(Operation *op, const Twine &what, spmd::FormAttr form);

private:
  llvm::DenseMap<unsigned, spmd::AxisForm> placed, split;
};
} // namespace

LogicalResult Placements::add(Operation *op, const Twine &what,
                              spmd::FormAttr form) {
  for (auto [axis, code] : llvm::enumerate(form.getCodes())) {
    auto own = spmd::AxisForm::fromCode(code);
    if (!own.isAt() && !own.isGather())
      continue;
    (own.isAt() ? placed : split).try_emplace(axis, own);
    auto &others = own.isAt() ? split : placed;
    if (auto other = others.find(axis); other != others.end())
      return op->emitError()
             << what << " is '" << own.str() << "' on axis '"
             << form.getMesh().getName(axis) << "', where another tensor is '"
             << other->second.str()
             << "', expected an axis that places tensors or splits them";
  }
  return success();
}

LogicalResult tandem::verifyForms(func::FuncOp step, spmd::MeshAttr mesh,
                                  FormsLeft left) {
  Placements placements;
  auto check = [&](Operation *op, const Twine &what, Type type) {
    Attribute encoding = cast<RankedTensorType>(type).getEncoding();
    auto form = dyn_cast_or_null<spmd::FormAttr>(encoding);
    return success(!form || (succeeded(verifyOnMesh(op, what, form, mesh)) &&
                             succeeded(verifyLeft(op, what, form, left)) &&
                             succeeded(placements.add(op, what, form))));
  };
  return checkTypes(step, check);
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

namespace {
/// An argument or result of a step.
struct Declared {
  std::string name;
  Type type;
  DictionaryAttr attributes;
};
} // namespace

static SmallVector<Declared> getDeclared(func::FuncOp step) {
  SmallVector<Declared> all;
  for (auto [index, type] : llvm::enumerate(step.getArgumentTypes()))
    all.push_back(
        {("argument " + Twine(index)).str(), type, step.getArgAttrDict(index)});
  for (auto [index, type] : llvm::enumerate(step.getResultTypes()))
    all.push_back({("result " + Twine(index)).str(), type,
                   step.getResultAttrDict(index)});
  return all;
}

/// Whether `type` is what a device holds of `layout`.
static bool isLocal(Type type, RankedTensorType layout, spmd::MeshAttr mesh,
                    bool hasTime) {
  auto local = dyn_cast<ShapedType>(type);
  if (!local || local.getElementType() != layout.getElementType())
    return false;
  if (!mesh)
    return local.getShape() == layout.getShape();
  spmd::Forms forms = spmd::getForms(layout, mesh);
  if (local.getShape() !=
      ArrayRef(spmd::getLocalShape(layout.getShape(), mesh, forms,
                                   spmd::AxisKind::Space)))
    return false;
  // Buffers have no forms.
  return !isa<RankedTensorType>(type) ||
         spmd::getForms(type, mesh) == spmd::getFormsLeft(mesh, forms, hasTime);
}

static LogicalResult verifyLayout(func::FuncOp step, const Declared &declared,
                                  RankedTensorType layout, spmd::MeshAttr mesh,
                                  bool hasTime) {
  auto form = dyn_cast_or_null<spmd::FormAttr>(layout.getEncoding());
  if (form && form.getMesh() != mesh)
    return step.emitError() << declared.name << " has the layout " << layout
                            << ", expected a form on the mesh " << mesh;
  if (isLocal(declared.type, layout, mesh, hasTime))
    return success();
  return step.emitError() << declared.name << " has the type " << declared.type
                          << ", which is no device's part of its layout "
                          << layout;
}

LogicalResult tandem::verifyLayouts(func::FuncOp step, spmd::MeshAttr mesh,
                                    bool hasTime, bool ofAll) {
  bool isDeclared = step.getName() == "step";
  for (const Declared &declared : getDeclared(step)) {
    RankedTensorType layout = spmd::getLayout(declared.attributes);
    if (layout && failed(verifyLayout(step, declared, layout, mesh, hasTime)))
      return failure();
    if (!layout && (ofAll || (isDeclared && nn::getRole(declared.attributes))))
      return step.emitError()
             << declared.name << " has no '" << spmd::kLayoutAttrName
             << "', expected the type of the global tensor";
  }
  return success();
}

LogicalResult tandem::verifyNoLayouts(func::FuncOp step) {
  for (const Declared &declared : getDeclared(step))
    if (spmd::getLayout(declared.attributes))
      return step.emitError()
             << declared.name << " has the '" << spmd::kLayoutAttrName
             << "' that localize writes, expected none";
  return success();
}
