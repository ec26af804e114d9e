//===- CountModelFlops.cpp - what the model's products compute ------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/NN/Attention.h"
#include "tandem/Dialect/NN/ModelFacts.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Import/Import.h"
#include <map>

namespace tandem {
#define GEN_PASS_DEF_COUNTMODELFLOPSPASS
#include "tandem/Transforms/Import/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {
struct CountModelFlopsPass
    : tandem::impl::CountModelFlopsPassBase<CountModelFlopsPass> {
  void runOnOperation() override;
};
} // namespace

/// Attention's gradient makes the scores again.
static double countScores(nn::AttentionBackwardOp op) {
  ArrayRef<int64_t> query = op.getQuery().getType().getShape();
  int64_t keys = op.getKey().getType().getShape()[2];
  double pairs =
      nn::countAttentionPairs(query[2], keys, op.getBefore(), op.getAfter());
  return 2 * pairs * static_cast<double>(query[0] * query[1] * query[3]);
}

/// Of a product of the model; 0 of everything else.
static double countModelFlops(Operation *op) {
  auto product = dyn_cast<nn::LibraryOpInterface>(op);
  if (!product || nn::isAgain(op) || nn::getPass(op) == nn::PassKind::Update)
    return 0;
  auto gradient = dyn_cast<nn::AttentionBackwardOp>(op);
  return product.getFlops() - (gradient ? countScores(gradient) : 0);
}

static std::string getTypeName(Operation *product) {
  auto type = cast<RankedTensorType>(product->getOperand(0).getType());
  std::string name;
  llvm::raw_string_ostream(name) << type.getElementType();
  return name;
}

void CountModelFlopsPass::runOnOperation() {
  ModuleOp module = getOperation();
  auto step = module.lookupSymbol<func::FuncOp>("step");
  if (!step || step.isExternal())
    return;
  std::map<std::string, double> flops;
  for (Operation &op : step.getBody().front())
    if (double own = countModelFlops(&op); own > 0)
      flops[getTypeName(&op)] += own;
  Builder builder(module.getContext());
  NamedAttrList counted;
  for (const auto &[type, number] : flops)
    counted.set(type, builder.getF64FloatAttr(number));
  module->removeAttr(nn::kModelFlopsAttrName);
  if (!counted.empty())
    module->setAttr(nn::kModelFlopsAttrName,
                    counted.getDictionary(module.getContext()));
}
