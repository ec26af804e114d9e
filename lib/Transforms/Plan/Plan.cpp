//===- Plan.cpp - the plan stage ------------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Transforms/Plan/Plan.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace tandem {

void buildPlanPipeline(OpPassManager &manager, const PlanOptions &options) {
  manager.addPass(createPlanPass(options));
}

} // namespace tandem
