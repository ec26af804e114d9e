//===- Shard.cpp - the shard stage ----------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Transforms/Shard/Shard.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace tandem {

void buildShardPipeline(OpPassManager &manager, const ShardOptions &options) {
  auto add = [&](std::unique_ptr<Pass> pass) {
    manager.addNestedPass<func::FuncOp>(std::move(pass));
  };
  // First of all: no pass behind it knows a choice, or what nobody takes.
  if (!options.keepsSources)
    add(createTakeSourcesPass());
  // Before signatures are applied: what is made as wanted gets its own here.
  add(createPlaceSourcesPass());
  add(createApplySignaturesPass());
  add(createWidenSumsPass());
  // Apart from the first pass, since a sequence of reforms is a choice by cost
  // and the forms are not.
  add(createSplitReformsPass());
}

} // namespace tandem
