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
#include "tandem/Transforms/PassOptions.h"

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace tandem {

struct ImportOptions : mlir::PassPipelineOptions<ImportOptions> {
#define TANDEM_IMPORT_OPTION TANDEM_PASS_OPTION
#include "tandem/Support/Options.def"

  void take(const Options &options) {
#define TANDEM_IMPORT_OPTION TANDEM_TAKE_OPTION
#include "tandem/Support/Options.def"
  }
};

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "tandem/Transforms/Import/Passes.h.inc"

/// The stage: all of the above, verified at entry.
void buildImportPipeline(mlir::OpPassManager &manager,
                         const ImportOptions &options);

} // namespace tandem

#endif // TANDEM_TRANSFORMS_IMPORT_IMPORT_H
