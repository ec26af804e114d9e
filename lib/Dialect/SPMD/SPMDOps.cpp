//===- SPMDOps.cpp - reform and the collectives ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "tandem/Dialect/SPMD/SPMD.h"

using namespace mlir;
using namespace tandem::spmd;

#define GET_OP_CLASSES
#include "tandem/Dialect/SPMD/SPMDOps.cpp.inc"

static FormAttr getFormAttr(RankedTensorType type) {
  return dyn_cast_or_null<FormAttr>(type.getEncoding());
}

LogicalResult ReformOp::verify() {
  RankedTensorType from = getInput().getType(), to = getResult().getType();
  if (from.getShape() != to.getShape() ||
      from.getElementType() != to.getElementType())
    return emitOpError("changes the tensor from ")
           << withoutForms(from) << " to " << withoutForms(to)
           << ", expected a change of form only";
  FormAttr before = getFormAttr(from), after = getFormAttr(to);
  if (before && after && before.getMesh() != after.getMesh())
    return emitOpError("changes the mesh");
  if (before == after)
    return emitOpError("changes nothing");
  return success();
}

/// Size of the group that `axes` span; fails on an unknown or time axis, and if
/// axes do not come in the order of the mesh.
static FailureOr<int64_t> getGroupSize(Operation *op, ArrayAttr axes) {
  MeshAttr mesh = getMesh(op);
  if (!mesh)
    return op->emitOpError("needs a mesh: the module has no 'spmd.mesh'");
  if (axes.empty())
    return op->emitOpError("names no axis");
  int64_t size = 1;
  std::optional<unsigned> last;
  for (auto name : axes.getAsRange<StringAttr>()) {
    std::optional<unsigned> axis = mesh.lookup(name.getValue());
    if (!axis || mesh.isTime(*axis))
      return op->emitOpError("the mesh ")
             << mesh << " has no space axis " << name;
    if (last && *axis <= *last)
      return op->emitOpError("names the axes ")
             << axes << ", expected each once and in the order of " << mesh;
    last = axis;
    size *= mesh.getSize(*axis);
  }
  return size;
}

/// Checks that the result is the input with the dimension `shrunk` divided and
/// `grown` multiplied by the size of the group.
static LogicalResult verifyCollective(Operation *op, ArrayAttr axes,
                                      std::optional<int64_t> shrunk,
                                      std::optional<int64_t> grown) {
  FailureOr<int64_t> size = getGroupSize(op, axes);
  if (failed(size))
    return failure();
  auto from = cast<RankedTensorType>(op->getOperand(0).getType());
  auto to = cast<RankedTensorType>(op->getResult(0).getType());
  for (std::optional<int64_t> dim : {shrunk, grown})
    if (dim && (*dim < 0 || *dim >= from.getRank()))
      return op->emitOpError("dimension ")
             << *dim << " does not exist in " << from;
  SmallVector<int64_t> shape(from.getShape());
  if (grown)
    shape[*grown] *= *size;
  if (shrunk) {
    int64_t &whole = shape[*shrunk];
    if (whole % *size != 0)
      return op->emitOpError("dimension ")
             << *shrunk << " of size " << whole << " cannot be cut for "
             << *size << " members";
    whole /= *size;
  }
  auto expected =
      RankedTensorType::get(shape, from.getElementType(), from.getEncoding());
  if (to != expected)
    return op->emitOpError("gives ") << to << ", expected " << expected;
  return success();
}

LogicalResult AllReduceOp::verify() {
  return verifyCollective(*this, getAxes(), {}, {});
}
LogicalResult KeepFirstOp::verify() {
  return verifyCollective(*this, getAxes(), {}, {});
}
LogicalResult AllGatherOp::verify() {
  return verifyCollective(*this, getAxes(), {}, getDim());
}
LogicalResult ReduceScatterOp::verify() {
  return verifyCollective(*this, getAxes(), getDim(), {});
}
LogicalResult LocalSliceOp::verify() {
  return verifyCollective(*this, getAxes(), getDim(), {});
}
LogicalResult AllToAllOp::verify() {
  if (getSplitDim() == getConcatDim())
    return emitOpError("splits and concatenates the same dimension");
  return verifyCollective(*this, getAxes(), getSplitDim(), getConcatDim());
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

std::optional<LoopOp> KeepFirstOp::getLoops() { return buildPieceLoops(*this); }
std::optional<LoopOp> LocalSliceOp::getLoops() {
  return buildPieceLoops(*this);
}
