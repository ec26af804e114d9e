//===- LocalizeSpace.cpp - per-device shapes and collectives --------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/StepAttrs.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Localize/Localize.h"
#include "tandem/Transforms/StepPass.h"

namespace tandem {
#define GEN_PASS_DEF_LOCALIZESPACEPASS
#include "tandem/Transforms/Localize/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem::spmd;

namespace {
class LocalizeSpacePass
    : public tandem::StepPass<
          tandem::impl::LocalizeSpacePassBase<LocalizeSpacePass>> {
public:
  LogicalResult runOnStep(func::FuncOp step) override;

private:
  RankedTensorType localize(Type type) const;
  SmallVector<Type> localize(TypeRange types) const;
  void localizeArguments(func::FuncOp step);
  LogicalResult localizeReform(ReformOp reform, RankedTensorType from,
                               RankedTensorType to);
  void localizePositions(LocalizeOpInterface op, TypeRange operandTypes);
  Value buildCollective(OpBuilder &builder, ReformOp reform, AxisForm from,
                        AxisForm to, ArrayAttr axes);

  MeshAttr mesh;
};
} // namespace

RankedTensorType LocalizeSpacePass::localize(Type type) const {
  auto tensor = cast<RankedTensorType>(type);
  Forms forms = getForms(tensor, mesh);
  auto local = RankedTensorType::get(
      getLocalShape(tensor.getShape(), mesh, forms, AxisKind::Space),
      tensor.getElementType());
  return withForms(local, mesh, getFormsLeft(mesh, forms, /*hasTime=*/true));
}

SmallVector<Type> LocalizeSpacePass::localize(TypeRange types) const {
  SmallVector<Type> local;
  for (Type type : types)
    local.push_back(localize(type));
  return local;
}

/// Notes the global tensors before their shapes are lost.
void LocalizeSpacePass::localizeArguments(func::FuncOp step) {
  tandem::editArgAttrs(step, [&](unsigned index, NamedAttrList &attrs) {
    attrs.set(kLayoutAttrName, TypeAttr::get(step.getArgumentTypes()[index]));
  });
  tandem::editResultAttrs(step, [&](unsigned index, NamedAttrList &attrs) {
    attrs.set(kLayoutAttrName, TypeAttr::get(step.getResultTypes()[index]));
  });
  for (BlockArgument argument : step.getArguments())
    argument.setType(localize(argument.getType()));
  step.setType(FunctionType::get(step.getContext(),
                                 step.getBody().getArgumentTypes(),
                                 localize(step.getResultTypes())));
}

//===----------------------------------------------------------------------===//
// Reforms
//===----------------------------------------------------------------------===//

/// A change from or to one point.
static Value buildAtPoint(OpBuilder &builder, ReformOp reform, AxisForm from,
                          AxisForm to, ArrayAttr axes) {
  Location loc = reform.getLoc();
  Value input = reform.getInput();
  Type type = reform.getType();
  if (from.isAt() && to.isAt())
    return TransferOp::create(builder, loc, type, input, axes, from.getPoint(),
                              to.getPoint());
  if (from.isAt() && to.isFull())
    return BroadcastOp::create(builder, loc, type, input, axes,
                               from.getPoint());
  if (from.isAt())
    return ZeroOthersOp::create(builder, loc, type, input, axes,
                                from.getPoint());
  if (from.isReduce())
    return ReduceOp::create(builder, loc, type, input, axes, to.getPoint());
  return KeepAtOp::create(builder, loc, type, input, axes, to.getPoint());
}

/// The collective of a change over space. The operand is local already.
Value LocalizeSpacePass::buildCollective(OpBuilder &builder, ReformOp reform,
                                         AxisForm from, AxisForm to,
                                         ArrayAttr axes) {
  Location loc = reform.getLoc();
  Value input = reform.getInput();
  Type type = reform.getType();
  if (from.isAt() || to.isAt())
    return buildAtPoint(builder, reform, from, to, axes);
  if (from.isReduce() && to.isFull())
    return AllReduceOp::create(builder, loc, type, input, axes);
  if (from.isReduce())
    return ReduceScatterOp::create(builder, loc, type, input, axes,
                                   to.getDim());
  if (from.isGather() && to.isFull())
    return AllGatherOp::create(builder, loc, type, input, axes, from.getDim());
  if (from.isGather())
    return AllToAllOp::create(builder, loc, type, input, axes, to.getDim(),
                              from.getDim());
  if (to.isGather())
    return LocalSliceOp::create(builder, loc, type, input, axes, to.getDim());
  return KeepFirstOp::create(builder, loc, type, input, axes);
}

LogicalResult LocalizeSpacePass::localizeReform(ReformOp reform,
                                                RankedTensorType from,
                                                RankedTensorType to) {
  Forms before = getForms(from, mesh), after = getForms(to, mesh);
  std::string reason;
  auto axis = getReformedAxis(mesh, before, after, &reason);
  if (!axis)
    return reform.emitError() << "reform is no single collective: " << reason;
  reform.getResult().setType(localize(to));
  if (mesh.isTime(*axis))
    return success();
  Value result = reform.getInput();
  if (mesh.getSize(*axis) > 1 || before[*axis].isAt() || after[*axis].isAt()) {
    OpBuilder builder(reform);
    result = buildCollective(builder, reform, before[*axis], after[*axis],
                             builder.getStrArrayAttr(mesh.getName(*axis)));
    result.getDefiningOp()->setDiscardableAttrs(
        tandem::nn::getPartAttributes(reform));
  }
  reform.replaceAllUsesWith(result);
  reform.erase();
  return success();
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

namespace {
/// Gives what an operator becomes the operator's discardable attributes.
struct CopyAttributes : OpBuilder::Listener {
  explicit CopyAttributes(Operation *from) : from(from) {}
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    op->setDiscardableAttrs(from->getDiscardableAttrDictionary());
  }
  Operation *from;
};
} // namespace

void LocalizeSpacePass::localizePositions(LocalizeOpInterface op,
                                          TypeRange operandTypes) {
  CopyAttributes listener(op);
  OpBuilder builder(op, &listener);
  SmallVector<Type> types = localize(op->getResultTypes());
  Shard shard(mesh, op->getOperands(), operandTypes, op->getResultTypes(),
              types);
  SmallVector<Value> results = op.buildShard(builder, shard);
  op->replaceAllUsesWith(results);
  op->erase();
}

LogicalResult LocalizeSpacePass::runOnStep(func::FuncOp step) {
  mesh = getMesh(step);
  if (!mesh)
    return step.emitError()
           << "the module has no '" << kMeshAttrName << "', expected a mesh";
  if (failed(tandem::verifyForms(step, mesh, tandem::FormsLeft::All)) ||
      failed(tandem::verifyUnscheduled(step)))
    return failure();
  Block &block = step.getBody().front();
  // Operands are local by the time that an operator is reached.
  llvm::DenseMap<Operation *, SmallVector<Type>> operandTypes;
  for (Operation &op : block.without_terminator())
    if (isa<ReformOp, LocalizeOpInterface>(op))
      operandTypes[&op] = llvm::to_vector(op.getOperandTypes());
  localizeArguments(step);
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
    if (auto reform = dyn_cast<ReformOp>(op)) {
      auto from = cast<RankedTensorType>(operandTypes[&op].front());
      if (failed(localizeReform(reform, from, reform.getType())))
        return failure();
    } else if (auto positions = dyn_cast<LocalizeOpInterface>(op)) {
      localizePositions(positions, operandTypes[&op]);
    } else {
      for (Value result : op.getResults())
        result.setType(localize(result.getType()));
    }
  }
  return success();
}
