//===- NumberOperators.cpp - an id per operator ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Import/Import.h"

using namespace mlir;
using tandem::nn::NNDialect;

namespace {
struct NumberOperatorsPass
    : PassWrapper<NumberOperatorsPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(NumberOperatorsPass)
  StringRef getArgument() const override { return "tandem-number-operators"; }
  StringRef getDescription() const override {
    return "Gives each operator an nn.id, in the order of the text";
  }
  void runOnOperation() override {
    Builder builder(&getContext());
    int64_t next = 0;
    for (Operation &op : getOperation().getBody().front().without_terminator())
      op.setAttr(NNDialect::kIdAttrName, builder.getI64IntegerAttr(next++));
  }
};
} // namespace

std::unique_ptr<Pass> tandem::createNumberOperatorsPass() {
  return std::make_unique<NumberOperatorsPass>();
}
