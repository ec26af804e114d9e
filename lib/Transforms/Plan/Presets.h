//===- Presets.h - what plan presets ask of each axis -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_PRESETS_H
#define TANDEM_LIB_TRANSFORMS_PLAN_PRESETS_H

#include "AxisPlanner.h"

namespace tandem::plan {

enum class AxisPreset {
  Replicate,
  DataParallel,
  Zero,
  TensorParallel,
  ExpertParallel
};

/// One per axis of the mesh, by the names of the axes: batch and ZeRO on
/// `data`, tensor parallelism on `model`, experts on `expert`, else `data`; on
/// a mesh with one axis, that one. Emits an error at the step where an axis is
/// missing or the preset is unknown.
mlir::FailureOr<llvm::SmallVector<AxisPreset>>
getAxisPresets(mlir::func::FuncOp step, spmd::MeshAttr mesh,
               llvm::StringRef preset);

/// A pin of the user: the forms in which arguments whose name matches are
/// stored; or, if the name is that of an operator (`nn.softmax#17`,
/// `nn.softmax@model.py:12`), in which operators make it.
struct Pin {
  std::string glob;
  llvm::SmallVector<std::pair<unsigned, spmd::AxisForm>> forms;

  bool isOfMade() const { return glob.find_first_of("#@") != glob.npos; }
};

/// Per argument and axis, whether a pin says the form that the graph holds.
using PinFlags = std::vector<llvm::SmallVector<bool>>;

/// Parses `glob:axis=form[,axis=form];...`.
mlir::FailureOr<llvm::SmallVector<Pin>>
parsePins(mlir::func::FuncOp step, spmd::MeshAttr mesh, llvm::StringRef text);

/// Writes the pinned forms into the arguments and values of the graph. Errors
/// name the tensor and what is legal.
mlir::LogicalResult applyPins(StepGraph &graph, llvm::ArrayRef<Pin> pins,
                              PinFlags &isPinned);

/// Fails where the signatures of `axis` make something else than pins ask for.
mlir::LogicalResult checkMadePins(const StepGraph &graph, unsigned axis);

/// Splits inputs over the batch on every axis that asks for it.
mlir::LogicalResult splitBatch(StepGraph &graph,
                               llvm::ArrayRef<AxisPreset> presets,
                               const PinFlags &pins);

/// Fails where an input does not divide into the microbatches that were asked
/// for, unless a pin says how it is split: a search could only leave it whole.
mlir::LogicalResult checkMicrobatches(StepGraph &graph,
                                      const PinFlags &isPinned);

/// Plans all axes of `graph` by a preset: forms of arguments and signatures of
/// operators. `pins` is text as `parsePins` reads it. In one strand nothing but
/// what is pinned is split over time.
mlir::LogicalResult planByPreset(StepGraph &graph, llvm::StringRef preset,
                                 llvm::StringRef pins,
                                 bool isInOneStrand = false);

/// Warns of space axes that split nothing, so that all their points compute the
/// same, and of a preset whose own axis has found no parameter to split.
void warnOfUnsplit(const StepGraph &graph, llvm::StringRef preset);

/// Says, after a search, which axes do not divide the batch and which
/// parameters no axis divides: they are kept whole.
void listUndivided(const StepGraph &graph);

/// The stored forms of parameters and states on `axis`, and the policy for
/// its operators. `isPinned` has one entry per argument.
AxisPolicy applyPreset(StepGraph &graph, unsigned axis, AxisPreset preset,
                       llvm::ArrayRef<bool> isPinned);

/// Megatron's column and row splits (arXiv:1909.08053), found in the graph:
/// stored forms on `axis` and the weights that are used as stored.
void splitTensors(StepGraph &graph, unsigned axis,
                  llvm::ArrayRef<bool> isPinned, AxisPolicy &policy);

/// GShard's split of expert weights (arXiv:2006.16668) over `axis`.
void splitExperts(StepGraph &graph, unsigned axis,
                  llvm::ArrayRef<bool> isPinned, AxisPolicy &policy);

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_PRESETS_H
