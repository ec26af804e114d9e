//===- Declarations.cpp - arguments and results of a Program --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Declarations.h"
#include "tandem/Device/HostSpace.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/Host.h"
#include "tandem/Dialect/Sched/Sched.h"

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
    else if (axisForm.isAt())
      form.at.push_back(
          {getAxisNumber(mesh, own.getName(axis)), axisForm.getPoint()});
    else if (axisForm.isReduce() && !own.isTime(axis))
      form.reduce.push_back(getAxisNumber(mesh, own.getName(axis)));
  }
  return form;
}

static DictionaryAttr orEmpty(DictionaryAttr attributes, MLIRContext *context) {
  return attributes ? attributes : DictionaryAttr::get(context);
}

/// Fills in what arguments and results have in common.
template <typename DeclarationT>
static LogicalResult describe(func::FuncOp step, Type type,
                              DictionaryAttr attributes, spmd::MeshAttr mesh,
                              DeclarationT &declaration) {
  auto buffer = cast<ShapedType>(type);
  auto element = getElementType(step, buffer.getElementType());
  if (!element)
    return failure();
  if (auto role = nn::getRole(attributes))
    declaration.role = stringifyRole(*role).str();
  declaration.name = nn::getTensorName(attributes).str();
  declaration.type = *element;
  declaration.localShape = buffer.getShape().vec();
  auto layout =
      RankedTensorType::get(buffer.getShape(), buffer.getElementType());
  if (RankedTensorType whole = spmd::getLayout(attributes))
    layout = whole;
  declaration.globalShape = layout.getShape().vec();
  declaration.form = getForm(layout, mesh);
  if (auto part = nn::getPart(attributes))
    declaration.part = {part.getName().str(), part.getShape().vec(),
                        static_cast<uint32_t>(part.getDim()), part.getOffset()};
  return success();
}

/// Outside of the step, iterations are the major part of the dimension behind
/// them: a time axis like others.
static void joinIterations(rt::Argument &argument, int64_t dim) {
  auto join = [&](rt::Shape &shape) {
    shape[dim + 1] *= shape[dim];
    shape.erase(shape.begin() + dim);
  };
  int64_t count = argument.globalShape[dim];
  join(argument.globalShape);
  join(argument.localShape);
  std::vector<rt::DimForm> &dims = argument.form.dims;
  dims[dim + 1].timeFactor *= count;
  dims.erase(dims.begin() + dim);
}

static double toDouble(Attribute number) {
  if (auto real = dyn_cast<FloatAttr>(number))
    return real.getValueAsDouble();
  return static_cast<double>(cast<IntegerAttr>(number).getInt());
}

/// The range of values that capture recorded, if it did.
static std::optional<std::pair<double, double>>
getRange(DictionaryAttr attributes) {
  auto range = nn::getRange(attributes);
  if (!range)
    return std::nullopt;
  return std::pair(toDouble(range->first), toDouble(range->second));
}

FailureOr<uint32_t> addHostArena(func::FuncOp step, int64_t bytes,
                                 rt::ProgramBuilder &builder) {
  const Device &device = sched::getDevice(step);
  if (std::optional<uint32_t> space = findHostSpace(device))
    return builder.addArena(bytes, *space);
  return step.emitError() << bytes << " bytes lie on the host, which device '"
                          << device.name << "' does not copy from";
}

static LogicalResult declareArgument(func::FuncOp step, unsigned index,
                                     spmd::MeshAttr mesh,
                                     rt::ProgramBuilder &builder) {
  DictionaryAttr attributes =
      orEmpty(step.getArgAttrDict(index), step.getContext());
  rt::Argument argument;
  if (failed(describe(step, step.getArgumentTypes()[index], attributes, mesh,
                      argument)))
    return failure();
  if (auto dim = getInteger(attributes, spmd::kIteratedAttrName))
    joinIterations(argument, *dim);
  argument.range = getRange(attributes);
  if (spmd::isOnHost(step, index)) {
    std::optional<uint32_t> space = findHostSpace(sched::getDevice(step));
    if (!space)
      return step.emitError("argument ")
             << index << " lies on the host, which device '"
             << sched::getDevice(step).name << "' does not copy from";
    argument.memorySpace = *space;
  }
  builder.addArgument(std::move(argument));
  return success();
}

static LogicalResult declareResult(func::FuncOp step, unsigned index,
                                   spmd::MeshAttr mesh,
                                   rt::ProgramBuilder &builder) {
  DictionaryAttr attributes =
      orEmpty(step.getResultAttrDict(index), step.getContext());
  if (std::optional<int64_t> updated = nn::getUpdates(attributes)) {
    if (builder.get().arguments[*updated].updatedBy >= 0)
      return step.emitError("result ")
             << index << " updates argument " << *updated
             << ", which another result updates as well";
    builder.addUpdate(*updated);
    return success();
  }
  rt::Result result;
  if (failed(describe(step, step.getResultTypes()[index], attributes, mesh,
                      result)))
    return failure();
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
