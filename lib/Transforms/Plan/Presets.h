//===- Presets.h - presets --------------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TRANSFORMS_PLAN_PRESETS_H
#define TANDEM_LIB_TRANSFORMS_PLAN_PRESETS_H

#include "StepGraph.h"
#include "tandem/Cost/Cluster.h"
#include "tandem/Cost/Plan.h"

namespace tandem::plan {

/// Writes the forms of the pins `glob:axis=form[,axis=form];...` into the
/// arguments and values of the graph, and groups its operators by them. Errors
/// name the tensor and what is legal.
mlir::LogicalResult applyPins(StepGraph &graph, llvm::StringRef text);

/// The graph with the pins of `text`; none, and no error, if it cannot have
/// them: then `why` gets it.
std::optional<StepGraph> tryPins(const StepGraph &graph, llvm::StringRef text,
                                 std::string *why = nullptr);

/// Remarks on each pin `again` under which the plan of `graph` holds no less at
/// its peak, priced for `cluster`, than if all that the pin names were saved:
/// what holds it.
void tellIdlePins(const StepGraph &graph, llvm::StringRef text,
                  const cost::Cluster &cluster);

/// Whether the graph's forms and signatures are those that the pins ask for.
bool obeysPins(const StepGraph &graph, llvm::StringRef text);

/// Fails where an input does not divide into the microbatches that were asked
/// for, unless a pin says how it is split: a search could only leave it whole.
mlir::LogicalResult checkMicrobatches(const StepGraph &graph);

llvm::SmallVector<llvm::StringRef> getPresetNames();

struct Extraction;

/// The signatures of a preset, in one stage, for the problem of `graph`, under
/// its pins, and the copies that it keeps. In one strand nothing but what is
/// pinned is split over time.
mlir::FailureOr<cost::Plan> planByPreset(StepGraph graph,
                                         const Extraction &extraction,
                                         llvm::StringRef preset,
                                         bool isInOneStrand = false);

/// Sets the copies that the preset keeps from pass to pass: of parameters, if
/// any, by the signatures of `plan`.
void keepCopies(const StepGraph &graph, const Extraction &extraction,
                llvm::StringRef preset, cost::Plan &plan);

/// Warns of space axes that split nothing, so that all their points compute the
/// same, and of a preset whose own axis has found no parameter to split.
void warnOfUnsplit(const StepGraph &graph, llvm::StringRef preset);

/// Warns, after a search with the prices of `cluster`, of a time axis over
/// which the plan splits no operator: the microbatches asked for are not made.
void warnOfOneStrand(const StepGraph &graph, llvm::StringRef cluster);

/// Says, after a search, which axes do not divide the batch and which
/// parameters no axis divides: they are kept whole.
void listUndivided(const StepGraph &graph);

/// Megatron's column and row splits (arXiv:1909.08053), found in the graph:
/// stored forms on `axis` and, by argument, the weights that are used as stored
/// in the forward and backward passes.
void splitTensors(StepGraph &graph, unsigned axis,
                  llvm::SmallVectorImpl<bool> &keepsStored);

/// GShard's split of expert weights (arXiv:2006.16668) over `axis`; likewise.
void splitExperts(StepGraph &graph, unsigned axis,
                  llvm::SmallVectorImpl<bool> &keepsStored);

} // namespace tandem::plan

#endif // TANDEM_LIB_TRANSFORMS_PLAN_PRESETS_H
