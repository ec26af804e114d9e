//===- Localize.cpp - the localize stage ----------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Transforms/Localize/Localize.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace tandem {

void buildLocalizePipeline(OpPassManager &manager, const LocalizeOptions &) {
  auto add = [&](std::unique_ptr<Pass> pass) {
    manager.addNestedPass<func::FuncOp>(std::move(pass));
  };
  add(createLocalizeSpacePass());
  // One message instead of two: latency is paid once.
  add(createMergeCollectivesPass());
  // A search for a wrong number names them, in the stages that follow.
  manager.addPass(createNumberMovementsPass());
}

} // namespace tandem
