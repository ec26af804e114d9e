//===- LayoutCandidates.h - which layouts are weighed -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Makes candidates of the meshes of a cluster: presets, Megatron's rule, and
// what the search of layouts finds by an estimate from the FLOPs of layers
// (Search/Pipeline/Layouts.h).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_EXECUTION_LAYOUTCANDIDATES_H
#define TANDEM_LIB_EXECUTION_LAYOUTCANDIDATES_H

#include "Candidate.h"
#include "ChooseLayout.h"
#include "tandem/Search/Pipeline/Layouts.h"
#include <optional>

namespace tandem {

/// Parameters are whole in the first one, and split in the second one.
inline constexpr llvm::StringLiteral kWhole = "data-parallel", kSplit = "zero2";

class LayoutCandidates {
public:
  using Candidates = std::vector<Candidate>;

  /// All of them outlive this.
  LayoutCandidates(const CompileOptions &options, const StepLayers &step,
                   const cost::Cluster &cluster);

  Candidate make(std::string name, std::string mesh) const;
  /// Without a pipe axis, in one strand.
  Candidate makeOpen() const;
  /// The same in two strands, where the options leave them open.
  Candidates makeStrands() const;
  Candidate makePreset(llvm::StringRef preset, std::string mesh) const;
  Candidates makePresets() const;
  /// Megatron's, by the number of points. Where the estimate knows which is the
  /// least that holds the step, this is a yardstick.
  Candidates makeRule() const;
  /// AMP's best layout: that of its equations 2 and 4, by 1F1B. None if none
  /// was found before the deadline.
  Candidates makeAmp(const pipeline::Deadline &deadline) const;
  /// Of each mesh and schedule the best one, as far as bounds let it be cut;
  /// and in `shapes`, of each mesh, the best cut of each way to lay sections on
  /// points. Perhaps all forward passes come first.
  Candidates makePipelines(const pipeline::Deadline &deadline,
                           bool runsForwardFirst, Candidates &shapes) const;
  /// The same pipeline with other microbatches and another order.
  Candidate vary(const Candidate &of, int64_t microbatches,
                 std::string order) const;

private:
  using Layout = pipeline::Layout;
  using LayoutResult = pipeline::LayoutResult;

  pipeline::LayoutProblem makeProblem() const;
  /// Whether there are layers that pipelines may cut.
  bool hasLayers() const { return step.layers.size() > 1 && step.rows > 0; }
  int64_t countMicrobatches(const Layout &layout) const {
    return step.rows / options.micro / layout.data / layout.rows;
  }
  bool isOpen(const Layout &layout) const {
    return options.accumulate == 1 ||
           options.accumulate == countMicrobatches(layout);
  }
  bool holds(const Candidate &candidate, int64_t pipe, int64_t data,
             int64_t model) const;
  Candidate makeOf(const LayoutResult &result) const;
  Candidate makePipeline(const LayoutResult &result) const;
  Candidates makeShapes(llvm::ArrayRef<LayoutResult> results) const;

  const CompileOptions &options;
  const StepLayers &step;
  const cost::Cluster &cluster;
  int64_t devices;
  pipeline::LayoutProblem problem;
};

} // namespace tandem

#endif // TANDEM_LIB_EXECUTION_LAYOUTCANDIDATES_H
