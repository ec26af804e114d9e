//===- NumberOperators.cpp - an id per operator ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Import/Import.h"
#include "tandem/Transforms/StepPass.h"

using namespace mlir;
using tandem::nn::NNDialect;

namespace {
struct NumberOperatorsPass : tandem::StepPass<NumberOperatorsPass> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(NumberOperatorsPass)
  StringRef getArgument() const override { return "tandem-number-operators"; }
  StringRef getDescription() const override {
    return "Gives each operator an nn.id, in the order of the text";
  }
  LogicalResult runOnStep(func::FuncOp step) override {
    Builder builder(&getContext());
    int64_t next = 0;
    for (Operation &op : step.getBody().front().without_terminator())
      op.setAttr(NNDialect::kIdAttrName, builder.getI64IntegerAttr(next++));
    return success();
  }
};
} // namespace

std::unique_ptr<Pass> tandem::createNumberOperatorsPass() {
  return std::make_unique<NumberOperatorsPass>();
}
