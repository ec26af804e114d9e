//===- VerifyAccumulated.cpp - the exit of the accumulate stage -----------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Analysis/Loops.h"
#include "tandem/Transforms/Accumulate/Accumulate.h"
#include "tandem/Transforms/StepPass.h"

namespace tandem {
#define GEN_PASS_DEF_VERIFYACCUMULATEDPASS
#include "tandem/Transforms/Accumulate/Passes.h.inc"
} // namespace tandem

namespace {
struct VerifyAccumulatedPass
    : tandem::StepPass<
          tandem::impl::VerifyAccumulatedPassBase<VerifyAccumulatedPass>> {
  mlir::LogicalResult runOnStep(mlir::func::FuncOp step) override {
    return tandem::verifyLoops(step);
  }
};
} // namespace
