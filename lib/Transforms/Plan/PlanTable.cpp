//===- PlanTable.cpp - a plan for people ------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Transforms/Plan/Plan.h"
#include "StepGraph.h"

using namespace mlir;
using namespace tandem;

void tandem::printPlanTable(ModuleOp module, llvm::raw_ostream &os) {}

namespace {
struct PrintPlanPass : PassWrapper<PrintPlanPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PrintPlanPass)
  StringRef getArgument() const override { return "tandem-print-plan"; }
  StringRef getDescription() const override {
    return "Prints the plan as a table to standard error";
  }
  void runOnOperation() override { printPlanTable(getOperation(), llvm::errs()); }
};
} // namespace

std::unique_ptr<Pass> tandem::createPrintPlanPass() {
  return std::make_unique<PrintPlanPass>();
}
