//===- Pipelines.cpp - the stages in order --------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Pipelines/Pipelines.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "tandem/Conversion/Kernels/Passes.h"
#include "tandem/Conversion/Lower/Lower.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem/Dialect/Sched/Sched.h"
#include "tandem/Transforms/Duplex/Duplex.h"
#include "tandem/Transforms/Import/Import.h"
#include "tandem/Transforms/Localize/Localize.h"
#include "tandem/Transforms/Schedule/Schedule.h"
#include "tandem/Transforms/Shard/Shard.h"

using mlir::OpPassManager;

namespace tandem {

void registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<mlir::func::FuncDialect, nn::NNDialect, spmd::SPMDDialect,
                  sched::SchedDialect>();
}

/// The pipeline of a stage on a command line. What it is given may have been
/// edited by hand, so the verifier at the exit of the stage before, `entry`,
/// looks at it first.
template <typename OptionsT>
static void registerStage(llvm::StringRef flag, llvm::StringRef description,
                          void (*entry)(OpPassManager &),
                          void (*build)(OpPassManager &, const OptionsT &)) {
  static mlir::PassPipelineRegistration<OptionsT> pipeline(
      flag, description, [=](OpPassManager &manager, const OptionsT &options) {
        entry(manager);
        build(manager, options);
      });
}

/// Adds a verifier of functions.
template <std::unique_ptr<mlir::Pass> (*create)()>
static void nest(OpPassManager &manager) {
  manager.addNestedPass<mlir::func::FuncOp>(create());
}

static void addVerifyNumbered(OpPassManager &manager) {
  manager.addPass(createVerifyStepPass({/*numbered=*/true}));
}

/// A plan can only be made for what is a step.
static void addMakePlan(OpPassManager &manager) {
  addVerifyNumbered(manager);
  manager.addPass(createMakePlanPass());
}

/// A table can only be made of what is a step with a plan.
static void addPrintPlan(OpPassManager &manager) {
  addVerifyNumbered(manager);
  manager.addPass(createVerifyPlanPass());
  manager.addPass(createPrintPlanPass());
}

void registerPipelines() {
  registerImport();
  registerVerifyPlanPass();
  // Reads the plan's signatures as text, and takes nothing for granted.
  registerShard();
  registerLocalizePasses();
  registerDuplexPasses();
  registerSchedulePasses();
  registerLowerPasses();
  registerKernelPasses();
  registerStage("tandem-plan", "Forms and signatures: the plan stage",
                addVerifyNumbered, buildPlanPipeline);
  static mlir::PassPipelineRegistration<> makePlan(
      "tandem-make-plan",
      "Chooses the forms of arguments and a signature per operator",
      addMakePlan);
  static mlir::PassPipelineRegistration<> printPlan(
      "tandem-print-plan", "Prints the plan as a table to standard error",
      addPrintPlan);
  registerStage("tandem-localize",
                "Per-device shapes and collectives: the localize stage",
                nest<createVerifyShardedPass>, buildLocalizePipeline);
  registerStage("tandem-duplex",
                "One strand per point of a time axis: the duplex stage",
                nest<createVerifyLocalizedPass>, buildDuplexPipeline);
  registerStage("tandem-schedule",
                "Steps on queues with events: the schedule stage",
                nest<createVerifyDuplexedPass>, buildSchedulePipeline);
  registerStage("tandem-lower", "commands on buffers in an arena, and kernels",
                nest<createVerifyScheduledPass>, buildLowerPipeline);
}

//===----------------------------------------------------------------------===//
// The stages. Each verifies at its exit what the next one relies on.
//===----------------------------------------------------------------------===//

/// What is computed, in one way of writing it: equal programs get equal plans.
static void import(OpPassManager &manager, const PlanOptions &options) {
  ImportOptions own;
  own.recompute = options.recompute;
  buildImportPipeline(manager, own);
}

/// Which signature each operator has on each axis. Changes nothing else.
static void plan(OpPassManager &manager, const PlanOptions &options) {
  buildPlanPipeline(manager, options);
}

/// Forms go into types; where producer and consumer differ, a reform. From here
/// to duplex a missing change of form is a verifier's error.
static void shard(OpPassManager &manager, const PlanOptions &) {
  buildShardPipeline(manager, ShardOptions());
}

/// Space axes leave first: per-device shapes and collectives, still one strand.
static void localize(OpPassManager &manager, const PlanOptions &) {
  buildLocalizePipeline(manager, LocalizeOptions());
}

/// Time axes leave: one strand per microbatch. No form is left afterwards.
static void duplex(OpPassManager &manager, const PlanOptions &) {
  buildDuplexPipeline(manager, DuplexOptions());
}

/// When each strand computes and communicates.
static void schedule(OpPassManager &manager, const PlanOptions &) {
  buildSchedulePipeline(manager, ScheduleOptions());
}

/// Kernels, library calls and memory: all that is left is to write it down.
static void lowerSteps(OpPassManager &manager, const PlanOptions &) {
  buildLowerPipeline(manager, LowerOptions());
}

llvm::ArrayRef<Stage> getStages() {
  static const Stage stages[] = {{"import", import},   {"plan", plan},
                                 {"shard", shard},     {"localize", localize},
                                 {"duplex", duplex},   {"schedule", schedule},
                                 {"lower", lowerSteps}};
  return stages;
}

} // namespace tandem
