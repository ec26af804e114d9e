//===- PlaceSources.cpp - forms of sources --------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Shard/Shard.h"
#include "tandem/Transforms/StepPass.h"
#include "llvm/ADT/MapVector.h"
#include <map>

namespace tandem {
#define GEN_PASS_DEF_PLACESOURCESPASS
#include "tandem/Transforms/Shard/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;

namespace {
/// Walks from the last operator to the first: readers of each are done before
/// it.
class PlaceSourcesPass
    : public StepPass<tandem::impl::PlaceSourcesPassBase<PlaceSourcesPass>> {
public:
  LogicalResult runOnStep(func::FuncOp step) override;

private:
  Forms getWanted(OpOperand &use) const;
  SmallVector<Signature> makeSignatures(OpResult result,
                                        ArrayRef<AxisForm> wanted) const;
  SmallVector<std::pair<SignaturesAttr, SmallVector<OpOperand *>>>
  findWays(Operation *op) const;
  LogicalResult place(Operation *op);
  Operation *clone(Operation *op);

  MeshAttr mesh;
  int64_t nextId = 0;
};
} // namespace

/// The return wants scalars, which are `full`.
Forms PlaceSourcesPass::getWanted(OpOperand &use) const {
  Forms forms(mesh.getNumAxes(), AxisForm::full());
  SignaturesAttr signatures = getPlanned(use.getOwner()).signatures;
  if (signatures)
    for (unsigned axis = 0; axis < signatures.getNumAxes(); ++axis)
      forms[axis] =
          signatures.getSignature(axis).operands[use.getOperandNumber()];
  return forms;
}

/// Signatures that give the result in the forms `wanted`; `full` throughout if
/// there are none, so that the result is cut out of the whole.
SmallVector<Signature>
PlaceSourcesPass::makeSignatures(OpResult result,
                                 ArrayRef<AxisForm> wanted) const {
  Rule rule = cast<SignatureOpInterface>(result.getOwner()).getRule();
  SmallVector<Signature> full(wanted.size(), rule.enumerate(1).front());
  SmallVector<Signature> made = full;
  for (unsigned axis : mesh.getLayoutOrder()) {
    int64_t size = mesh.getSize(axis);
    auto legal = rule.enumerate(size);
    auto *it = llvm::find_if(legal, [&](const Signature &signature) {
      return signature.results[result.getResultNumber()] == wanted[axis] &&
             llvm::none_of(signature.operands,
                           [](AxisForm form) { return form.isReduce(); });
    });
    if (it == legal.end() || failed(rule.split(*it, size)))
      return full;
    made[axis] = *it;
  }
  return made;
}

Operation *PlaceSourcesPass::clone(Operation *op) {
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  Operation *copy = builder.clone(*op);
  setInteger(copy, nn::kIdAttrName, nextId++);
  return copy;
}

/// The signatures by which readers get the forms that they want, with the
/// readers of each.
SmallVector<std::pair<SignaturesAttr, SmallVector<OpOperand *>>>
PlaceSourcesPass::findWays(Operation *op) const {
  llvm::MapVector<SignaturesAttr, SmallVector<OpOperand *>> ways;
  auto add = [&](OpResult result, ArrayRef<AxisForm> forms) -> auto & {
    return ways[SignaturesAttr::get(op->getContext(),
                                    makeSignatures(result, forms))];
  };
  for (OpResult result : op->getResults()) {
    std::map<std::vector<AxisForm>, SmallVector<OpOperand *>> byForms;
    for (OpOperand &use : result.getUses()) {
      Forms wanted = getWanted(use);
      byForms[{wanted.begin(), wanted.end()}].push_back(&use);
    }
    for (auto &[forms, uses] : byForms)
      llvm::append_range(add(result, forms), uses);
  }
  if (ways.empty())
    add(op->getResult(0), Forms(mesh.getNumAxes(), AxisForm::full()));
  return ways.takeVector();
}

/// One operator for each way in which readers want the results, so that none is
/// cut out of a larger one.
LogicalResult PlaceSourcesPass::place(Operation *op) {
  if (op->getNumResults() == 0 || !isa<SignatureOpInterface>(op))
    return op->emitError() << "is made as wanted, expected an operator of nn";
  Operation *made = op;
  for (auto &[signatures, uses] : findWays(op)) {
    made = made ? made : clone(op);
    editPlanned(made, [&](Planned &planned) {
      planned.asWanted = false;
      planned.signatures = signatures;
    });
    for (OpOperand *use : uses)
      use->set(made->getResult(cast<OpResult>(use->get()).getResultNumber()));
    made = nullptr;
  }
  return success();
}

LogicalResult PlaceSourcesPass::runOnStep(func::FuncOp step) {
  mesh = getMesh(step);
  if (!mesh)
    return step.emitError() << "the module has no '" << kMeshAttrName
                            << "', expected a mesh: run the plan stage first";
  nextId = 0;
  Block &block = step.getBody().front();
  for (Operation &op : block)
    if (std::optional<int64_t> id = nn::getId(&op))
      nextId = std::max(nextId, *id + 1);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (getPlanned(&op).asWanted && failed(place(&op)))
      return failure();
  return success();
}
