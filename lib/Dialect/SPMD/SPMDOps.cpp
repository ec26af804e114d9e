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

/// The forms of `op`'s operand (or result) behind `localize`, on the module's
/// mesh.
static FailureOr<Forms> getFormsOf(Operation *op, Type type) {
  MeshAttr mesh = getMesh(op);
  FormAttr form = getFormAttr(cast<RankedTensorType>(type));
  if (form && form.getMesh() != mesh)
    return op->emitOpError("has a form on the mesh ")
           << form.getMesh() << ", expected the module's, " << mesh;
  return getForms(type, mesh);
}

static LogicalResult verifyOverGroup(Operation *op, ArrayAttr axes,
                                     std::optional<int64_t> shrunk,
                                     std::optional<int64_t> grown) {
  if (failed(verifyCollective(
          op, axes, cast<ShapedType>(op->getOperand(0).getType()),
          cast<ShapedType>(op->getResult(0).getType()), shrunk, grown)))
    return failure();
  FailureOr<Forms> forms = getFormsOf(op, op->getOperand(0).getType());
  if (failed(forms))
    return failure();
  for (auto name : axes.getAsRange<StringAttr>())
    if (AxisForm form = (*forms)[*getMesh(op).lookup(name)]; form.isAt())
      return op->emitOpError("runs over axis ")
             << name << ", on which its operand is '" << form.str()
             << "', expected a tensor that all points hold";
  return success();
}

/// A point of an axis, or all.
using MaybePoint = std::optional<int64_t>;

static AxisForm getForm(MaybePoint point) {
  return point ? AxisForm::at(*point) : AxisForm::full();
}

/// Checks that `op`, over groups of one axis, makes a tensor that is at `after`
/// of one that is at `before`.
static LogicalResult verifyPoint(Operation *op, ArrayAttr axes,
                                 MaybePoint before, MaybePoint after) {
  FailureOr<int64_t> size = verifyGroup(op, axes);
  if (failed(size))
    return failure();
  if (axes.size() != 1)
    return op->emitOpError("names the axes ") << axes << ", expected one";
  auto type = cast<RankedTensorType>(op->getOperand(0).getType());
  FailureOr<Forms> forms = getFormsOf(op, type);
  if (failed(forms))
    return failure();
  MeshAttr mesh = getMesh(op);
  unsigned axis = *mesh.lookup(cast<StringAttr>(axes[0]).getValue());
  for (MaybePoint point : {before, after})
    if (point && (*point < 0 || *point >= *size))
      return op->emitOpError("names point ")
             << *point << " of axis " << axes[0] << " of size " << *size;
  if ((*forms)[axis] != getForm(before))
    return op->emitOpError("takes a tensor that is '")
           << (*forms)[axis].str() << "' on axis " << axes[0] << ", expected '"
           << getForm(before).str() << "'";
  (*forms)[axis] = getForm(after);
  RankedTensorType expected = withForms(type, mesh, *forms);
  if (op->getResult(0).getType() != expected)
    return op->emitOpError("gives ")
           << op->getResult(0).getType() << ", expected " << expected;
  return success();
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

//===----------------------------------------------------------------------===//
// One point of an axis: `full` stands for `reduce`, which types no longer say
//===----------------------------------------------------------------------===//

LogicalResult TransferOp::verify() {
  if (getFrom() == getTo())
    return emitOpError("sends from point ") << getFrom() << " to itself";
  return verifyPoint(*this, getAxes(), getFrom(), getTo());
}
LogicalResult BroadcastOp::verify() {
  return verifyPoint(*this, getAxes(), getFrom(), {});
}
LogicalResult ReduceOp::verify() {
  return verifyPoint(*this, getAxes(), {}, getTo());
}
LogicalResult KeepAtOp::verify() {
  return verifyPoint(*this, getAxes(), {}, getPoint());
}
LogicalResult ZeroOthersOp::verify() {
  return verifyPoint(*this, getAxes(), getPoint(), {});
}

LogicalResult CoordinateOp::verify() {
  if (isIteration())
    return success();
  return verifyGroup(*this, ArrayAttr::get(getContext(), getAxisAttr()));
}

Rule CoordinateOp::getRule() {
  Rule rule;
  rule.results.emplace_back();
  return rule;
}

//===----------------------------------------------------------------------===//
// What enters a loop and leaves it
//===----------------------------------------------------------------------===//

/// `all` is `one` of each iteration. What has forms is verified by the rule.
static LogicalResult verifyIterated(Operation *op, RankedTensorType all,
                                    RankedTensorType one) {
  int64_t count = getIterations(op);
  if (all.getElementType() == one.getElementType() && all.getRank() > 0 &&
      all.getDimSize(0) == count &&
      all.getShape().drop_front() == one.getShape())
    return success();
  return op->emitOpError("has the tensors ")
         << all << " of all and " << one << " of one of " << count
         << " iterations, expected them to differ in a dimension 0 that counts "
            "iterations";
}

LogicalResult EnterOp::verify() {
  return verifyIterated(*this, getInput().getType(), getResult().getType());
}
LogicalResult CollectOp::verify() {
  return verifyIterated(*this, getResult().getType(), getInput().getType());
}
LogicalResult CarryOp::verify() {
  if (withoutForms(getInput().getType()) == withoutForms(getResult().getType()))
    return success();
  return emitOpError("adds ") << getInput().getType() << " up to "
                              << getResult().getType() << ", expected one type";
}

/// Each dimension goes on as it is; dimension 0 of what all iterations have
/// stays whole.
static Rule buildIteratedRule(Operation *op, bool inInput, bool inResult) {
  Rule rule;
  rule.operands.emplace_back();
  rule.results.emplace_back();
  Rule::Dim iterations;
  if (inInput || inResult)
    iterations = {rule.addFactor(getIterations(op), /*splittable=*/false)};
  if (inInput)
    rule.operands.front().push_back(iterations);
  if (inResult)
    rule.results.front().push_back(iterations);
  auto one = cast<RankedTensorType>(inInput ? op->getResult(0).getType()
                                            : op->getOperand(0).getType());
  for (int64_t size : one.getShape()) {
    unsigned factor = rule.addFactor(size);
    rule.operands.front().push_back({factor});
    rule.results.front().push_back({factor});
  }
  rule.linear.push_back({0});
  return withoutSumsOfTruth(op, std::move(rule));
}

Rule EnterOp::getRule() { return buildIteratedRule(*this, true, false); }
Rule CollectOp::getRule() { return buildIteratedRule(*this, false, true); }
Rule CarryOp::getRule() { return buildIteratedRule(*this, false, false); }

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

std::optional<LoopOp> KeepFirstOp::getLoops() { return buildPieceLoops(*this); }
std::optional<LoopOp> LocalSliceOp::getLoops() {
  return buildPieceLoops(*this);
}
