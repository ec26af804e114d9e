//===- WidenSums.cpp - sums of gradients in the type of the parameter -----===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A product gives the gradient of a parameter in f32 itself (WidenGradients).
// Attention gives it in bf16, so that a plan for which half the bytes are
// cheaper has its terms added before they are widened. In which type gradients
// are added is the user's choice, and no price's.
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/Gradients.h"
#include "tandem/Analysis/TensorType.h"
#include "tandem/Transforms/Shard/Shard.h"
#include "tandem/Transforms/StepPass.h"

namespace tandem {
#define GEN_PASS_DEF_WIDENSUMSPASS
#include "tandem/Transforms/Shard/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;

namespace {
struct WidenSumsPass
    : StepPass<tandem::impl::WidenSumsPassBase<WidenSumsPass>> {
  LogicalResult runOnStep(func::FuncOp step) override;
};
} // namespace

static bool sums(ReformOp reform) {
  MeshAttr mesh = getMesh(reform);
  return llvm::any_of(
      llvm::zip_equal(getForms(getTensorType(reform.getInput()), mesh),
                      getForms(getTensorType(reform.getResult()), mesh)),
      [](auto forms) {
        auto [from, to] = forms;
        return from.isReduce() && !to.isReduce();
      });
}

/// reform, convert -> convert, reform. Returns the new conversion.
static nn::ConvertOp swap(ReformOp reform, nn::ConvertOp convert) {
  OpBuilder builder(convert);
  RankedTensorType type = getTensorType(convert.getResult());
  Value terms = reform.getInput();
  auto wide = nn::ConvertOp::create(
      builder, convert.getLoc(),
      getTensorType(terms).clone(type.getElementType()), terms);
  wide->setDiscardableAttrs(convert->getDiscardableAttrDictionary());
  auto sum = ReformOp::create(builder, reform.getLoc(), type, wide);
  sum->setDiscardableAttrs(reform->getDiscardableAttrDictionary());
  convert.getResult().replaceAllUsesWith(sum.getResult());
  convert.erase();
  if (reform.use_empty())
    reform.erase();
  return wide;
}

/// The change of form that `convert` reads and that adds terms, itself or by
/// those before it; null if there is none.
static ReformOp getSum(nn::ConvertOp convert) {
  auto reform = convert.getInput().getDefiningOp<ReformOp>();
  for (ReformOp last = reform; last;
       last = last.getInput().getDefiningOp<ReformOp>())
    if (sums(last))
      return reform;
  return {};
}

LogicalResult WidenSumsPass::runOnStep(func::FuncOp step) {
  SmallVector<nn::ConvertOp> converts;
  for (auto convert : step.getBody().front().getOps<nn::ConvertOp>())
    if (widensGradient(convert))
      converts.push_back(convert);
  for (nn::ConvertOp convert : converts)
    while (ReformOp reform = getSum(convert))
      convert = swap(reform, convert);
  return success();
}
