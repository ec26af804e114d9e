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
  manager.addPass(createVerifyStepPass());
  // First of all, as it decides what is summed in which type.
  manager.addPass(createWidenGradientsPass());
  // Slices and concatenations are still where the model has them; what
  // gradients add as zeros goes next.
  manager.addPass(createTakeApartParametersPass({options.storedParts}));
  manager.addPass(createRemoveNeutralPass());
  // Equal views first, so that products see that they share an operand.
  manager.addPass(createMergeEqualPass());
  manager.addPass(createSimplifyViewsPass());
  manager.addPass(createSortRowsPass());
  manager.addPass(createUnfoldProductsPass());
  // Unfolding leaves reshapes of reshapes.
  manager.addPass(createSimplifyViewsPass());
  // After simplification, which joins views across passes.
  manager.addPass(createReuseViewsPass());
  manager.addPass(createOrderSumsPass());
  manager.addPass(createMergeEqualPass());
  // Last, since merging would have joined what this pass takes apart only if
  // passes were equal; they are not.
  manager.addPass(createCloneParameterViewsPass());
  // Behind merging for the same reason.
  if (options.recompute)
    manager.addPass(createRecomputeCheapPass());
  manager.addPass(createNumberOperatorsPass());
}

} // namespace tandem
