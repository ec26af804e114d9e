//===- Lower.cpp - the stage lower ----------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/Lower/Lower.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"

namespace tandem {

namespace lower {
#define GEN_PASS_REGISTRATION
#include "tandem/Conversion/Lower/Passes.h.inc"
} // namespace lower

void buildLowerPipeline(mlir::OpPassManager &manager,
                        const LowerOptions &options) {
  // What follows asks for what the device can do.
  manager.addPass(lower::createNameDevice({options.device}));
  // Forms that are left, or operators without kernel: an error of the user.
  manager.addPass(lower::createCheckLowerable());
  // Plans see repeated heads, which split as far as those of the query.
  manager.addPass(lower::createGroupHeads());
  // Before fusion, so that no kernel is made for a transposition that the
  // library does on the way.
  manager.addPass(lower::createSelectProducts());
  // Behind products, as a permutation that one reads is one to write.
  manager.addPass(lower::createSelectAttention());
  manager.addPass(lower::createSelectConvolutions());
  // Where iterations add up, as additions.
  manager.addPass(lower::createCarrySums());
  // Before fusion as well: a sum that a product makes is no kernel.
  manager.addPass(lower::createAccumulateProducts());
  manager.addPass(lower::createSelectEpilogues());
  manager.addPass(lower::createAddBias());
  // Behind all that reads by strides: what it leaves is for kernels only.
  manager.addPass(lower::createSplitLogSoftmax());
  manager.addPass(lower::createOutlineKernels());
  // From here on memory: first a buffer per value and plain copies, then
  // without the copies, then places that lifetimes allow.
  manager.addPass(lower::createBufferize());
  manager.addPass(lower::createForwardDestinations());
  // What is written in place is known now.
  manager.addPass(lower::createJoinUpdates());
  manager.addPass(lower::createReuseOperands());
  manager.addPass(lower::createPlaceBuffers());
}

void registerLowerPasses() { lower::registerLowerPasses(); }

} // namespace tandem
