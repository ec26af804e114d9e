//===- Import.cpp - the import stage --------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Transforms/Import/Import.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace tandem {

void buildImportPipeline(OpPassManager &manager, const ImportOptions &options) {
  auto add = [&](std::unique_ptr<Pass> pass) {
    manager.addNestedPass<func::FuncOp>(std::move(pass));
  };
  manager.addPass(createVerifyStepPass());
  // First of all, as it decides what is summed in which type.
  add(createWidenGradientsPass());
  // Slices and concatenations are still where the model has them; what
  // gradients add as zeros goes next.
  add(createTakeApartParametersPass({options.storedParts}));
  add(createRemoveNeutralPass());
  // Equal views first, so that products see that they share an operand.
  add(createMergeEqualPass());
  add(createSimplifyViewsPass());
  add(createSortRowsPass());
  add(createUnfoldProductsPass());
  // Unfolding leaves reshapes of reshapes.
  add(createSimplifyViewsPass());
  // After simplification, which joins views across passes.
  add(createReuseViewsPass());
  add(createOrderSumsPass());
  add(createMergeEqualPass());
  // Last, since merging would have joined what this pass takes apart only if
  // passes were equal; they are not.
  add(createCloneParameterViewsPass());
  add(createSinkAgainPass());
  // Behind the merging of what is equal, in front of what is offered besides.
  manager.addPass(createCountModelFlopsPass());
  manager.addPass(createCountTokensPass());
  add(createNumberOperatorsPass());
  // Behind numbers: an operator has the same one with and without an offer.
  add(createOfferSavedPass());
  if (options.recompute)
    add(createOfferRecomputationPass({options.hostMemory > 0}));
  // Behind the offer, whose clones read parameters, too.
  add(createFetchParametersPass());
}

} // namespace tandem
