//===- Plan.h - the plan stage ----------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Plan decides how every tensor of a training step is split on a mesh. It
// changes no operator and no type; it writes
//
//  * `spmd.mesh` on the module, with a time axis `micro` if there are several
//    microbatches; `spmd.memory`, if the plan fits into a named cluster;
//  * `spmd.plan` (Planned.h) on each operator with one signature per axis, in
//    mesh order, or `as_wanted`; on arguments and results that are not `full`
//    everywhere; of a search also stages, copies and what waits; if asked for
//    seconds and, on the module, prices.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TRANSFORMS_PLAN_PLAN_H
#define TANDEM_TRANSFORMS_PLAN_PLAN_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace tandem {

/// What the stage says beside the IR that it writes.
struct PlanResult {
  /// The plan as the text of a plan file.
  std::string text;
  /// Why it is as it is, for people and as JSON (tandem/Search/Explain.h).
  std::string explanation, explanationJson;
  /// Where it differs from another plan.
  std::string comparison;
};

struct PlanOptions : mlir::PassPipelineOptions<PlanOptions> {
  PlanOptions() = default;
  Option<std::string> mesh{
      *this, "mesh",
      llvm::cl::desc("space axes, e.g. data=4,model=2; auto "
                     "takes the best for the cluster"),
      llvm::cl::init("")};
  Option<int64_t> micro{*this, "micro",
                        llvm::cl::desc("number of microbatches (strands)"),
                        llvm::cl::init(1)};
  Option<std::string> timeAxis{
      *this, "time-axis",
      llvm::cl::desc("what the axis of microbatches is called"),
      llvm::cl::init("micro")};
  Option<int64_t> accumulate{
      *this, "accumulate",
      llvm::cl::desc("accumulate: into how many iterations the batch is cut"),
      llvm::cl::init(1)};
  Option<std::string> preset{
      *this, "preset",
      llvm::cl::desc("replicate, data-parallel, zero, tensor-parallel or "
                     "expert-parallel"),
      llvm::cl::init("data-parallel")};
  Option<std::string> pins{
      *this, "pins",
      llvm::cl::desc(
          "forms by name: 'layers.*.w1:model=gather(1);...', of what "
          "is stored, or of what an operator makes, as "
          "'nn.softmax#17' or 'nn.softmax@model.py:12'"),
      llvm::cl::init("")};
  Option<std::string> planFile{*this, "plan-file",
                               llvm::cl::desc("take the plan from this file"),
                               llvm::cl::init("")};
  Option<std::string> search{
      *this, "search",
      llvm::cl::desc("algorithm that finds the plan: tandem, hidup, ilp or "
                     "exhaustive; none takes the preset"),
      llvm::cl::init("")};
  Option<std::string> cluster{
      *this, "cluster",
      llvm::cl::desc("cluster file that prices the search; none is a laptop"),
      llvm::cl::init("")};
  Option<double> timeLimit{
      *this, "time-limit",
      llvm::cl::desc("seconds after which the best plan so far is taken"),
      llvm::cl::init(0)};
  Option<std::string> start{
      *this, "start",
      llvm::cl::desc("plan file that the search starts from, and is no worse "
                     "than"),
      llvm::cl::init("")};
  Option<bool> noPresets{
      *this, "no-presets",
      llvm::cl::desc("do not start the search from the presets as well"),
      llvm::cl::init(false)};
  Option<bool> costsPlan{
      *this, "cost", llvm::cl::desc("say what the plan costs, on the cluster"),
      llvm::cl::init(false)};
  Option<bool> seconds{
      *this, "seconds",
      llvm::cl::desc("write what the plan counts for each operator, on the "
                     "cluster, for --tandem-timeline"),
      llvm::cl::init(false)};
  Option<bool> recompute{
      *this, "recompute",
      llvm::cl::desc("import: the backward pass makes cheap values again"),
      llvm::cl::init(false)};
  Option<std::string> storedParts{
      *this, "stored-parts",
      llvm::cl::desc("import: how another step stores parameters (Passes.td)"),
      llvm::cl::init("")};
  Option<std::string> problemOut{
      *this, "problem-out",
      llvm::cl::desc("write the search problem to this file"),
      llvm::cl::init("")};
  Option<int64_t> failOnReplicate{
      *this, "fail-on-replicate",
      llvm::cl::desc("fail if a tensor of more bytes is left whole on all "
                     "devices; -1 allows all"),
      llvm::cl::init(-1)};
  Option<std::string> compareWith{
      *this, "compare-with",
      llvm::cl::desc("plan file to compare the plan of plan-file with"),
      llvm::cl::init("")};
  /// Filled when the stage has run; whoever holds it may outlive the pass.
  std::shared_ptr<PlanResult> result = std::make_shared<PlanResult>();
  /// Whether an explanation is asked for.
  bool explains = false;
  /// Asked while a search goes on: true ends it with the best plan so far.
  std::function<bool()> endsSearch;
  Option<std::string> output{*this, "output",
                             llvm::cl::desc("write the plan to this file"),
                             llvm::cl::init("")};
};

/// Plans by the options. A plan file brings its own mesh and number of
/// microbatches; naming another mesh beside it is an error.
std::unique_ptr<mlir::Pass> createPlanPass(const PlanOptions &options);

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "tandem/Transforms/Plan/Passes.h.inc"

/// The stage.
void buildPlanPipeline(mlir::OpPassManager &manager,
                       const PlanOptions &options);

/// Prints how a planned module (after `plan`, before `shard`) is split:
/// parameters and activations by form, collectives by kind with bytes,
/// operators computed whole on every rank of an axis though they could be
/// split, parameters that do not divide, and operators where strands join.
void printPlanTable(mlir::ModuleOp module, llvm::raw_ostream &os);

} // namespace tandem

#endif // TANDEM_TRANSFORMS_PLAN_PLAN_H
