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

FailureOr<int64_t> tandem::spmd::verifyGroup(Operation *op, ArrayAttr axes) {
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

LogicalResult tandem::spmd::verifyCollective(Operation *op, ArrayAttr axes,
                                             ShapedType from, ShapedType to,
                                             std::optional<int64_t> shrunk,
                                             std::optional<int64_t> grown) {
  FailureOr<int64_t> size = verifyGroup(op, axes);
  if (failed(size))
    return failure();
  if (shrunk && shrunk == grown)
    return op->emitOpError("splits and concatenates the same dimension");
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
  ShapedType expected = from.clone(shape);
  if (to != expected)
    return op->emitOpError("gives ") << to << ", expected " << expected;
  return success();
}

static LogicalResult verifyOverGroup(Operation *op, ArrayAttr axes,
                                     std::optional<int64_t> shrunk,
                                     std::optional<int64_t> grown) {
  return verifyCollective(
      op, axes, cast<ShapedType>(op->getOperand(0).getType()),
      cast<ShapedType>(op->getResult(0).getType()), shrunk, grown);
}

LogicalResult AllReduceOp::verify() {
  return verifyOverGroup(*this, getAxes(), {}, {});
}
LogicalResult KeepFirstOp::verify() {
  return verifyOverGroup(*this, getAxes(), {}, {});
}
LogicalResult AllGatherOp::verify() {
  return verifyOverGroup(*this, getAxes(), {}, getDim());
}
LogicalResult ReduceScatterOp::verify() {
  return verifyOverGroup(*this, getAxes(), getDim(), {});
}
LogicalResult LocalSliceOp::verify() {
  return verifyOverGroup(*this, getAxes(), getDim(), {});
}
LogicalResult AllToAllOp::verify() {
  return verifyOverGroup(*this, getAxes(), getSplitDim(), getConcatDim());
}

LogicalResult CoordinateOp::verify() {
  return verifyGroup(*this, ArrayAttr::get(getContext(), getAxisAttr()));
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

std::optional<LoopOp> KeepFirstOp::getLoops() { return buildPieceLoops(*this); }
std::optional<LoopOp> LocalSliceOp::getLoops() {
  return buildPieceLoops(*this);
}
