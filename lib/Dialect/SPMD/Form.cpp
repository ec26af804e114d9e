//===- Form.cpp - forms of tensors on the axes of a mesh ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem/Support/FormText.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace tandem::spmd;

namespace tandem::spmd {

std::string AxisForm::str() const { return form::print(code); }

std::optional<AxisForm> parseAxisForm(StringRef text) {
  std::optional<int64_t> code = form::parse(text);
  if (!code || !form::isOfTensors(*code))
    return std::nullopt;
  return AxisForm::fromCode(*code);
}

std::string printForms(ArrayRef<AxisForm> forms) {
  return llvm::join(llvm::map_range(forms, std::mem_fn(&AxisForm::str)), ", ");
}

std::optional<Forms> parseForms(StringRef text) {
  SmallVector<StringRef> parts;
  if (!text.trim().empty())
    text.split(parts, ',');
  Forms forms;
  for (StringRef part : parts) {
    std::optional<AxisForm> form = parseAxisForm(part);
    if (!form)
      return std::nullopt;
    forms.push_back(*form);
  }
  return forms;
}

MeshAttr getMesh(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  return module ? module->getAttrOfType<MeshAttr>(kMeshAttrName) : MeshAttr();
}

Forms getForms(Type type, MeshAttr mesh) {
  Forms forms(mesh ? mesh.getNumAxes() : 0, AxisForm::full());
  auto tensor = dyn_cast<RankedTensorType>(type);
  auto form =
      tensor ? dyn_cast_or_null<FormAttr>(tensor.getEncoding()) : FormAttr();
  if (form)
    for (auto [index, code] : llvm::enumerate(form.getCodes()))
      forms[index] = AxisForm::fromCode(code);
  return forms;
}

RankedTensorType withoutForms(RankedTensorType type) {
  return RankedTensorType::get(type.getShape(), type.getElementType());
}

RankedTensorType withForms(RankedTensorType type, MeshAttr mesh,
                           ArrayRef<AxisForm> forms) {
  if (llvm::all_of(forms, [](AxisForm form) { return form.isFull(); }))
    return withoutForms(type);
  SmallVector<int64_t> codes;
  for (AxisForm form : forms)
    codes.push_back(form.getCode());
  return RankedTensorType::get(type.getShape(), type.getElementType(),
                               FormAttr::get(type.getContext(), mesh, codes));
}

bool isTruth(Type type) { return getElementTypeOrSelf(type).isInteger(1); }

static bool isOfKind(MeshAttr mesh, unsigned axis, AxisKind kind) {
  return kind == AxisKind::Both ||
         mesh.isTime(axis) == (kind == AxisKind::Time);
}

SmallVector<int64_t> getLocalShape(ArrayRef<int64_t> shape, MeshAttr mesh,
                                   ArrayRef<AxisForm> forms, AxisKind kind) {
  SmallVector<int64_t> local(shape);
  for (auto [axis, form] : llvm::enumerate(forms))
    if (form.isGather() && isOfKind(mesh, axis, kind))
      local[form.getDim()] /= mesh.getSize(axis);
  return local;
}

SmallVector<int64_t> getLocalOffsets(ArrayRef<int64_t> shape, MeshAttr mesh,
                                     ArrayRef<AxisForm> forms,
                                     ArrayRef<int64_t> coordinates) {
  SmallVector<int64_t> offsets(shape.size(), 0), block(shape);
  if (!mesh)
    return offsets;
  for (unsigned axis : mesh.getLayoutOrder()) {
    if (!forms[axis].isGather())
      continue;
    int64_t dim = forms[axis].getDim();
    block[dim] /= mesh.getSize(axis);
    offsets[dim] += coordinates[axis] * block[dim];
  }
  return offsets;
}

bool isHeld(ArrayRef<AxisForm> forms, ArrayRef<int64_t> coordinates) {
  return llvm::all_of(llvm::zip(forms, coordinates), [](auto pair) {
    auto [form, coordinate] = pair;
    return !form.isAt() || form.getPoint() == coordinate;
  });
}

Forms getFormsLeft(MeshAttr mesh, ArrayRef<AxisForm> forms, bool hasTime) {
  Forms left(forms.size(), AxisForm::full());
  for (auto [axis, form] : llvm::enumerate(forms))
    if (form.isAt() || (hasTime && mesh.isTime(axis)))
      left[axis] = form;
  return left;
}

static bool isDivisible(ArrayRef<int64_t> shape, MeshAttr mesh,
                        ArrayRef<AxisForm> forms, std::string *reason) {
  SmallVector<int64_t> parts(shape.size(), 1);
  for (auto [axis, form] : llvm::enumerate(forms)) {
    if (!form.isGather())
      continue;
    int64_t dim = form.getDim();
    if (dim >= static_cast<int64_t>(shape.size())) {
      if (reason)
        *reason = "axis '" + mesh.getName(axis).str() + "' splits dimension " +
                  std::to_string(dim) + ", but the tensor has rank " +
                  std::to_string(shape.size());
      return false;
    }
    parts[dim] *= mesh.getSize(axis);
    if (shape[dim] % parts[dim] == 0)
      continue;
    if (reason)
      *reason = "dimension " + std::to_string(dim) + " of size " +
                std::to_string(shape[dim]) + " cannot be split into " +
                std::to_string(parts[dim]) + " equal parts (axis '" +
                mesh.getName(axis).str() + "')";
    return false;
  }
  return true;
}

/// Whether each `at` names a point of a space axis.
static bool isPlacedInSpace(MeshAttr mesh, ArrayRef<AxisForm> forms,
                            std::string *reason) {
  for (auto [axis, form] : llvm::enumerate(forms)) {
    if (!form.isAt() ||
        (!mesh.isTime(axis) && form.getPoint() < mesh.getSize(axis)))
      continue;
    if (reason && mesh.isTime(axis))
      *reason = "'" + form.str() + "' on the time axis '" +
                mesh.getName(axis).str() + "', expected a space axis";
    else if (reason)
      *reason = "'" + form.str() + "' on axis '" + mesh.getName(axis).str() +
                "' of size " + std::to_string(mesh.getSize(axis)) +
                ", expected a point below it";
    return false;
  }
  return true;
}

bool canHaveForms(RankedTensorType type, MeshAttr mesh,
                  ArrayRef<AxisForm> forms, std::string *reason) {
  if (!isDivisible(type.getShape(), mesh, forms, reason) ||
      !isPlacedInSpace(mesh, forms, reason))
    return false;
  for (auto [axis, form] : llvm::enumerate(forms)) {
    if (!form.isReduce() || !isTruth(type))
      continue;
    if (reason)
      *reason = "truth values (i1) are 'reduce' on axis '" +
                mesh.getName(axis).str() +
                "', expected 'full' or 'gather': a sum of them is none";
    return false;
  }
  return true;
}

bool isMinorMost(MeshAttr mesh, ArrayRef<AxisForm> forms, unsigned axis,
                 int64_t dim) {
  bool seen = false;
  for (unsigned other : mesh.getLayoutOrder()) {
    if (other == axis)
      seen = true;
    else if (seen && forms[other].isGather(dim))
      return false;
  }
  return true;
}

static std::optional<unsigned> refuse(std::string *reason, const Twine &why) {
  if (reason)
    *reason = why.str();
  return std::nullopt;
}

/// The only axis on which `from` and `to` differ.
static std::optional<unsigned> getOnlyDifference(MeshAttr mesh,
                                                 ArrayRef<AxisForm> from,
                                                 ArrayRef<AxisForm> to,
                                                 std::string *reason) {
  std::optional<unsigned> changed;
  for (unsigned axis = 0; axis < mesh.getNumAxes(); ++axis) {
    if (from[axis] == to[axis])
      continue;
    if (changed)
      return refuse(reason, "changes the axes '" + mesh.getName(*changed) +
                                "' and '" + mesh.getName(axis) +
                                "', expected one axis");
    changed = axis;
  }
  return changed ? changed : refuse(reason, "changes no axis");
}

std::optional<unsigned> getReformedAxis(MeshAttr mesh, ArrayRef<AxisForm> from,
                                        ArrayRef<AxisForm> to,
                                        std::string *reason) {
  auto axis = getOnlyDifference(mesh, from, to, reason);
  if (!axis)
    return std::nullopt;
  AxisForm before = from[*axis], after = to[*axis];
  for (auto [form, forms] : {std::pair(before, from), std::pair(after, to)})
    if (form.isGather() && !isMinorMost(mesh, forms, *axis, form.getDim()))
      return refuse(reason, "axis '" + mesh.getName(*axis) +
                                "' is not the minor-most one on dimension " +
                                Twine(form.getDim()));
  if (after.isReduce() && before.isGather())
    return refuse(reason, "makes 'reduce' of '" + before.str() +
                              "', expected of 'full' or 'at'");
  if ((before.isAt() && after.isGather()) ||
      (before.isGather() && after.isAt()))
    return refuse(reason, "makes '" + after.str() + "' of '" + before.str() +
                              "' on axis '" + mesh.getName(*axis) +
                              "', expected 'full' between them");
  return axis;
}

} // namespace tandem::spmd
