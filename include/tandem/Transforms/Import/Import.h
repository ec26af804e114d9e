//===- Import.h - the import stage ------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Import takes a training step as `export` writes it and gives canonical nn:
//
//  * before: `func.func @step` of nn operators on plain tensors, with roles;
//  * after: the same values, without dead or equal operators (within a pass),
//    without views that change nothing; packed parameters are taken apart;
//    products over merged leading dimensions are products over separate ones,
//    so that each can be split; a view of a parameter belongs to one pass; each
//    operator has an `nn.id`.
//
// The patterns are our own: forms may not be in types yet, but upstream's
// canonicalizers are not used on nn in any stage.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_IMPORT_IMPORT_H
#define TANDEM_TRANSFORMS_IMPORT_IMPORT_H

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace tandem {

struct ImportOptions : mlir::PassPipelineOptions<ImportOptions> {
  Option<bool> recompute{
      *this, "recompute",
      llvm::cl::desc("the backward pass makes again what is cheap to make"),
      llvm::cl::init(false)};
};

/// Fails, with one error, unless the module holds a training step as the nn
/// dialect describes it. With `numbered`, every operator has its own `nn.id`.
std::unique_ptr<mlir::Pass> createVerifyStepPass(bool numbered = false);
/// A parameter that holds several side by side (query, key and value; gate and
/// up), told by the slices that are taken of what is computed with it, becomes
/// as many parameters, with their own states, gradients and new values.
/// `nn.part` says where each lies in the whole.
std::unique_ptr<mlir::Pass> createTakeApartParametersPass();
/// Removes additions of zero and multiplications by one.
std::unique_ptr<mlir::Pass> createRemoveNeutralPass();
/// Removes and joins views; moves merges of dimensions towards their users.
std::unique_ptr<mlir::Pass> createSimplifyViewsPass();
/// Rows of products are merged with the batch first, so that it can be split;
/// permutations move to the users.
std::unique_ptr<mlir::Pass> createSortRowsPass();
/// Products over merged leading dimensions become products over separate ones.
std::unique_ptr<mlir::Pass> createUnfoldProductsPass();
/// Operators that are equal in all but their location become one, per pass.
std::unique_ptr<mlir::Pass> createMergeEqualPass();
/// In a sum of three terms or more, products come first (another rounding).
std::unique_ptr<mlir::Pass> createOrderSumsPass();
/// Backward views of an activation that forward uses through one view only
/// start at that view.
std::unique_ptr<mlir::Pass> createReuseViewsPass();
/// A view of a parameter that several passes use is made in each of them.
std::unique_ptr<mlir::Pass> createCloneParameterViewsPass();
/// Views, elementwise functions and random masks that follow from what the
/// backward pass holds anyway are made again in it, and not held.
std::unique_ptr<mlir::Pass> createRecomputeCheapPass();
/// Gives each operator an `nn.id`, in the order of the text.
std::unique_ptr<mlir::Pass> createNumberOperatorsPass();

/// The stage: all of the above, verified at entry and exit.
void buildImportPipeline(mlir::OpPassManager &manager,
                         const ImportOptions &options);

/// Registers the passes and `--tandem-import`.
void registerImport();

} // namespace tandem

#endif // TANDEM_TRANSFORMS_IMPORT_IMPORT_H
