//===- MergeCollectives.cpp - one collective over two axes ----------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem/Transforms/Localize/Localize.h"
#include "tandem/Transforms/StepPass.h"

namespace tandem {
#define GEN_PASS_DEF_MERGECOLLECTIVESPASS
#include "tandem/Transforms/Localize/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem::spmd;

namespace {
class MergeCollectivesPass
    : public tandem::StepPass<
          tandem::impl::MergeCollectivesPassBase<MergeCollectivesPass>> {
public:
  LogicalResult runOnStep(func::FuncOp step) override;

private:
  std::optional<ArrayAttr> joinAxes(Operation *outer, Operation *inner);
  void merge(Operation *outer);
};
} // namespace

/// The attributes apart from the axes.
static DictionaryAttr getDims(Operation *op) {
  NamedAttrList attributes(op->getDiscardableAttrDictionary());
  Planned planned = getPlanned(op);
  planned.seconds = 0;
  setPlanned(attributes, planned, op->getContext());
  for (StringRef name : {"dim", "split_dim", "concat_dim"})
    if (Attribute value = op->getAttr(name))
      attributes.set(name, value);
  return attributes.getDictionary(op->getContext());
}

/// The axes of `inner` and `outer` together, if the members of their common
/// group come in the order of the mesh: a gather ends with the major axis, a
/// scatter begins with it, a sum has no order.
std::optional<ArrayAttr> MergeCollectivesPass::joinAxes(Operation *outer,
                                                        Operation *inner) {
  auto axesOf = [](Operation *op) {
    return op->getAttrOfType<ArrayAttr>("axes");
  };
  Operation *major = isa<AllGatherOp>(outer) ? outer : inner;
  Operation *minor = major == outer ? inner : outer;
  SmallVector<Attribute> axes(axesOf(major).getValue());
  llvm::append_range(axes, axesOf(minor).getValue());
  MeshAttr mesh = getMesh(outer);
  auto indexOf = [&](Attribute name) {
    return *mesh.lookup(cast<StringAttr>(name).getValue());
  };
  auto inMeshOrder = [&](Attribute a, Attribute b) {
    return indexOf(a) < indexOf(b);
  };
  if (isa<AllReduceOp>(outer))
    llvm::sort(axes, inMeshOrder);
  if (!llvm::is_sorted(axes, inMeshOrder))
    return std::nullopt;
  return ArrayAttr::get(outer->getContext(), axes);
}

void MergeCollectivesPass::merge(Operation *outer) {
  Operation *inner = outer->getOperand(0).getDefiningOp();
  if (!inner || inner->getName() != outer->getName() || !inner->hasOneUse() ||
      getDims(inner) != getDims(outer))
    return;
  // A plan that lets them wait says for each when it is sent.
  if (isWaiting(outer))
    return;
  std::optional<ArrayAttr> axes = joinAxes(outer, inner);
  if (!axes)
    return;
  outer->setAttr("axes", *axes);
  double seconds = getPlanned(inner).seconds;
  editPlanned(outer, [&](Planned &planned) { planned.seconds += seconds; });
  outer->setOperand(0, inner->getOperand(0));
  inner->erase();
}

LogicalResult MergeCollectivesPass::runOnStep(func::FuncOp step) {
  for (Operation &op : step.getBody().front())
    if (isa<AllReduceOp, AllGatherOp, ReduceScatterOp>(op))
      merge(&op);
  return success();
}
