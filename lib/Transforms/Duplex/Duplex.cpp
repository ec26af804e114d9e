//===- Duplex.cpp - the duplex stage --------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Transforms/Duplex/Duplex.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace tandem {

void buildDuplexPipeline(OpPassManager &manager, const DuplexOptions &options) {
  auto add = [&](std::unique_ptr<Pass> pass) {
    manager.addNestedPass<func::FuncOp>(std::move(pass));
  };
  add(createSplitStrandsPass());
  // Whether a sum joins strands is known only when its users are there.
  add(createMarkJoinsPass({options.reportJoins}));
}

} // namespace tandem
