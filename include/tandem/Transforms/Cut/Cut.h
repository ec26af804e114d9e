//===- Cut.h - the cut into sections ----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Cut divides a step among the points of a pipe axis:
//
//  * before: nn on plain tensors, with the loops of microbatches, if any;
//  * after: the same, and each operator and argument knows its section.
//
// The plan behind it sees the mesh without the pipe axis. `shard` makes forms
// `at(i)` of sections.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_CUT_CUT_H
#define TANDEM_TRANSFORMS_CUT_CUT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include <string>
#include <vector>

namespace tandem {

/// Globs of the parameters of a section, `layers.0.*`.
using SectionNames = llvm::SmallVector<std::string>;

/// The globs of each section of a step whose arguments have `spmd.section`: of
/// whole modules where all of their parameters are in one.
llvm::SmallVector<SectionNames> nameSections(mlir::func::FuncOp step);

/// Parameters between two places where a step may be cut.
struct ChainLayer {
  std::vector<std::string> parameters;
  /// Of the forward pass over the whole batch.
  double flops = 0;
  /// Products, convolutions and the like of the forward pass.
  int64_t products = 0;
  /// Of the parameters; of what leaves the layer for later ones; of what the
  /// backward pass reads of it.
  int64_t bytes = 0, leaving = 0, saved = 0;
};

/// The layers of a step in the order of the data: modules with parameters, or
/// at least `number` if it has so many.
std::vector<ChainLayer> listLayers(mlir::func::FuncOp step, int64_t number);

/// For people: `embedding.*, layers.0.* to layers.5.*`.
std::string printSectionNames(const SectionNames &names);

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "tandem/Transforms/Cut/Passes.h.inc"

} // namespace tandem

#endif // TANDEM_TRANSFORMS_CUT_CUT_H
