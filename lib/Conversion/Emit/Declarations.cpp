//===- Declarations.cpp - arguments and results of a Program --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Declarations.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/NN/Parts.h"

using namespace mlir;

namespace tandem {

std::vector<rt::Axis> getSpaceAxes(spmd::MeshAttr mesh) {
  std::vector<rt::Axis> axes;
  for (unsigned axis = 0; mesh && axis < mesh.getNumSpaceAxes(); ++axis)
    axes.push_back({mesh.getName(axis).str(), mesh.getSize(axis)});
  return axes;
}

uint32_t getAxisNumber(spmd::MeshAttr mesh, StringRef name) {
  return *mesh.lookup(name);
}

std::optional<rt::ElementType> getElementType(Operation *op, Type type) {
  std::string name;
  llvm::raw_string_ostream(name) << type;
  auto element = rt::parseElementType(name);
  if (!element)
    op->emitError("has element type ")
        << type << ", expected f64, f32, bf16, i64, i32, i8 or i1";
  return element;
}

/// The form of a whole tensor: time factors and space axes per dimension.
static rt::Form getForm(RankedTensorType layout, spmd::MeshAttr mesh) {
  rt::Form form;
  form.dims.resize(layout.getRank());
  auto attr = dyn_cast_or_null<spmd::FormAttr>(layout.getEncoding());
  if (!attr)
    return form;
  spmd::MeshAttr own = attr.getMesh();
  spmd::Forms forms = spmd::getForms(layout, own);
  for (auto [axis, axisForm] : llvm::enumerate(forms)) {
    if (axisForm.isGather() && own.isTime(axis))
      form.dims[axisForm.getDim()].timeFactor *= own.getSize(axis);
    else if (axisForm.isGather())
      form.dims[axisForm.getDim()].axes.push_back(
          getAxisNumber(mesh, own.getName(axis)));
    else if (axisForm.isReduce() && !own.isTime(axis))
      form.reduce.push_back(getAxisNumber(mesh, own.getName(axis)));
  }
  return form;
}

namespace {
/// What arguments and results have in common.
struct Declaration {
  std::string role, name;
  rt::ElementType type = rt::ElementType::F32;
  rt::Shape globalShape, localShape;
  rt::Form form;
  std::optional<rt::Part> part;
};
} // namespace

static std::string getText(DictionaryAttr attributes, StringRef key) {
  auto attr = attributes.getAs<StringAttr>(key);
  return attr ? attr.getValue().str() : "";
}

static std::optional<Declaration> describe(func::FuncOp step, Type type,
                                           DictionaryAttr attributes,
                                           spmd::MeshAttr mesh) {
  auto buffer = cast<ShapedType>(type);
  auto element = getElementType(step, buffer.getElementType());
  if (!element)
    return std::nullopt;
  Declaration declaration;
  declaration.role = getText(attributes, nn::NNDialect::kRoleAttrName);
  declaration.name = getText(attributes, nn::NNDialect::kNameAttrName);
  declaration.type = *element;
  declaration.localShape = buffer.getShape().vec();
  auto layout =
      RankedTensorType::get(buffer.getShape(), buffer.getElementType());
  if (auto attr = attributes.getAs<TypeAttr>("spmd.layout"))
    layout = cast<RankedTensorType>(attr.getValue());
  declaration.globalShape = layout.getShape().vec();
  declaration.form = getForm(layout, mesh);
  if (auto part = nn::getPart(attributes))
    declaration.part = {part->name.str(), part->shape.vec(),
                        static_cast<uint32_t>(part->dim), part->offset};
  return declaration;
}

static LogicalResult declareArgument(func::FuncOp step, unsigned index,
                                     spmd::MeshAttr mesh,
                                     rt::ProgramBuilder &builder) {
  DictionaryAttr attributes = step.getArgAttrDict(index);
  if (!attributes)
    attributes = DictionaryAttr::get(step.getContext());
  auto d = describe(step, step.getArgumentTypes()[index], attributes, mesh);
  if (!d)
    return failure();
  rt::Argument argument;
  argument.role = d->role;
  argument.name = d->name;
  argument.type = d->type;
  argument.globalShape = d->globalShape;
  argument.localShape = d->localShape;
  argument.form = d->form;
  argument.part = d->part;
  if (auto range = attributes.getAs<ArrayAttr>("nn.range");
      range && range.size() == 2) {
    auto value = [&](unsigned i) -> double {
      if (auto real = dyn_cast<FloatAttr>(range[i]))
        return real.getValueAsDouble();
      auto integer = dyn_cast<IntegerAttr>(range[i]);
      return integer ? double(integer.getInt()) : 0.0;
    };
    argument.range = {value(0), value(1)};
  }
  builder.addArgument(std::move(argument));
  return success();
}

static LogicalResult declareResult(func::FuncOp step, unsigned index,
                                   spmd::MeshAttr mesh,
                                   rt::ProgramBuilder &builder) {
  DictionaryAttr attributes = step.getResultAttrDict(index);
  if (!attributes)
    attributes = DictionaryAttr::get(step.getContext());
  if (auto updates =
          attributes.getAs<IntegerAttr>(nn::NNDialect::kUpdatesAttrName)) {
    if (builder.get().arguments[updates.getInt()].updatedBy >= 0)
      return step.emitError("result ")
             << index << " updates argument " << updates.getInt()
             << ", which another result updates as well";
    builder.addUpdate(updates.getInt());
    return success();
  }
  auto d = describe(step, step.getResultTypes()[index], attributes, mesh);
  if (!d)
    return failure();
  rt::Result result;
  result.role = d->role;
  result.name = d->name;
  result.type = d->type;
  result.globalShape = d->globalShape;
  result.localShape = d->localShape;
  result.form = d->form;
  result.part = d->part;
  builder.addResult(std::move(result));
  return success();
}

LogicalResult declare(func::FuncOp step, spmd::MeshAttr mesh,
                      rt::ProgramBuilder &builder) {
  for (unsigned i = 0, e = step.getNumArguments(); i < e; ++i)
    if (failed(declareArgument(step, i, mesh, builder)))
      return failure();
  for (unsigned i = 0, e = step.getNumResults(); i < e; ++i)
    if (failed(declareResult(step, i, mesh, builder)))
      return failure();
  return success();
}

} // namespace tandem
