//===- NumberOperators.cpp - an id per operator ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Import/Import.h"
#include "tandem/Transforms/StepPass.h"

namespace tandem {
#define GEN_PASS_DEF_NUMBEROPERATORSPASS
#include "tandem/Transforms/Import/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using tandem::nn::NNDialect;

namespace {
struct NumberOperatorsPass
    : tandem::StepPass<
          tandem::impl::NumberOperatorsPassBase<NumberOperatorsPass>> {
  LogicalResult runOnStep(func::FuncOp step) override {
    int64_t next = 0;
    for (Operation &op : step.getBody().front().without_terminator())
      tandem::setInteger(&op, tandem::nn::kIdAttrName, next++);
    return success();
  }
};
} // namespace
