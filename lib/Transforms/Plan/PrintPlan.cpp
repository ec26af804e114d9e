//===- PrintPlan.cpp - the plan as a table --------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/NN/NN.h"
#include "tandem/Transforms/Plan/Plan.h"

namespace tandem {
#define GEN_PASS_DEF_PRINTPLANPASS
#include "tandem/Transforms/Plan/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {
struct PrintPlanPass : tandem::impl::PrintPlanPassBase<PrintPlanPass> {
  void runOnOperation() override {
    printPlanTable(getOperation(), llvm::errs());
    markAllAnalysesPreserved();
  }
};
} // namespace
