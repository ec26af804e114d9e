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
#include "tandem/Conversion/Emit/Emit.h"
#include "tandem/Conversion/Kernels/Passes.h"
#include "tandem/Conversion/Lower/Lower.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem/Dialect/Sched/Sched.h"
#include "tandem/Transforms/Accumulate/Accumulate.h"
#include "tandem/Transforms/Cut/Cut.h"
#include "tandem/Transforms/Duplex/Duplex.h"
#include "tandem/Transforms/Import/Import.h"
#include "tandem/Transforms/Localize/Localize.h"
#include "tandem/Transforms/Outline/Outline.h"
#include "tandem/Transforms/Schedule/Schedule.h"
#include "tandem/Transforms/Shard/Shard.h"

using mlir::OpPassManager;

namespace tandem {

void registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<mlir::func::FuncDialect, nn::NNDialect, spmd::SPMDDialect,
                  sched::SchedDialect>();
}

//===----------------------------------------------------------------------===//
// What stands in the table
//===----------------------------------------------------------------------===//

/// Adds a verifier of functions.
template <std::unique_ptr<mlir::Pass> (*create)()>
static void nest(OpPassManager &manager) {
  manager.addNestedPass<mlir::func::FuncOp>(create());
}

/// Adds a verifier of modules.
template <std::unique_ptr<mlir::Pass> (*create)()>
static void add(OpPassManager &manager) {
  manager.addPass(create());
}

static void addVerifyNumbered(OpPassManager &manager) {
  manager.addPass(createVerifyStepPass({/*numbered=*/true}));
}

static void addVerifyAccumulated(OpPassManager &manager) {
  addVerifyNumbered(manager);
  nest<createVerifyAccumulatedPass>(manager);
}

/// Which operators are in the loop is what forms say, those of as many
/// microbatches on one device.
static void buildAccumulatePipeline(OpPassManager &manager,
                                    const AccumulateOptions &options) {
  if (options.accumulate == 1)
    return;
  PlanOptions plan;
  plan.micro = options.accumulate;
  plan.timeAxis = "accumulate";
  nest<createRowsFirstPass>(manager);
  nest<createNumberOperatorsPass>(manager);
  buildPlanPipeline(manager, plan);
  // Sources are chosen by the plan of the step, not by that of its iterations.
  ShardOptions shard;
  shard.keepsSources = true;
  buildShardPipeline(manager, shard);
  // What no iteration needs does not join the batch.
  nest<createJoinReturnedPass>(manager);
  manager.addPass(createFormLoopsPass({options.order}));
  nest<createNumberOperatorsPass>(manager);
}

/// Builds a stage whose own options are OptionsT.
template <typename OptionsT,
          void (*buildPipeline)(OpPassManager &, const OptionsT &)>
static void build(OpPassManager &manager, const Options &options,
                  const PlanExchange &exchange) {
  OptionsT own;
  if constexpr (requires { own.take(options); })
    own.take(options);
  if constexpr (requires { own.exchange; })
    own.exchange = exchange;
  buildPipeline(manager, own);
}

/// A pipeline on a command line. It is of a module: MLIR ends the process where
/// its passes are added to a manager of another operation.
template <typename OptionsT>
static void
registerPipeline(llvm::StringRef flag, llvm::StringRef summary,
                 std::function<void(OpPassManager &, const OptionsT &)> build) {
  using Handler = llvm::function_ref<mlir::LogicalResult(const llvm::Twine &)>;
  mlir::registerPassPipeline(
      flag, summary,
      [=, name = flag.str()](OpPassManager &manager, llvm::StringRef text,
                             Handler fail) -> mlir::LogicalResult {
        auto anchor = manager.getOpName();
        if (anchor && *anchor != mlir::ModuleOp::getOperationName())
          return fail("pipeline '" + name + "' is on '" + *anchor +
                      "', expected 'builtin.module(" + name + ")'");
        OptionsT options;
        if (failed(options.parseFromString(text)))
          return mlir::failure();
        build(manager, options);
        return mlir::success();
      },
      [](llvm::function_ref<void(const mlir::detail::PassOptions &)> visit) {
        visit(OptionsT());
      });
}

/// A stage on a command line has options of its own.
template <typename OptionsT,
          void (*buildPipeline)(OpPassManager &, const OptionsT &)>
static void registerFlag(const Stage &stage, void (*enter)(OpPassManager &)) {
  registerPipeline<OptionsT>(
      ("tandem-" + stage.name).str(), stage.summary,
      [enter, verify = stage.verify](OpPassManager &manager,
                                     const OptionsT &options) {
        enter(manager);
        buildPipeline(manager, options);
        verify(manager);
      });
}

/// A row of the table.
template <typename OptionsT,
          void (*buildPipeline)(OpPassManager &, const OptionsT &)>
static constexpr Stage makeStage(llvm::StringLiteral name,
                                 llvm::StringLiteral summary,
                                 void (*verify)(OpPassManager &)) {
  return {name, summary, build<OptionsT, buildPipeline>, verify,
          registerFlag<OptionsT, buildPipeline>};
}

//===----------------------------------------------------------------------===//
// The stages. Each verifies at its exit what the next one relies on.
//===----------------------------------------------------------------------===//

static constexpr Stage kStageTable[] = {
    // What is computed, in one way of writing it: equal programs get equal
    // plans.
    makeStage<ImportOptions, buildImportPipeline>(
        "import", "Canonical nn: the import stage", addVerifyNumbered),
    // One iteration in place of all: what follows sees its batch, and marks.
    makeStage<AccumulateOptions, buildAccumulatePipeline>(
        "accumulate", "Loops over parts of the batch: the accumulate stage",
        addVerifyAccumulated),
    // Which signature each operator has on each axis. Changes nothing else.
    makeStage<PlanOptions, buildPlanPipeline>(
        "plan", "Forms and signatures: the plan stage",
        add<createVerifyPlanPass>),
    // Forms go into types; where producer and consumer differ, a reform. From
    // here to duplex a missing change of form is a verifier's error.
    makeStage<ShardOptions, buildShardPipeline>(
        "shard", "Forms into types, reforms between them: the shard stage",
        nest<createVerifyShardedPass>),
    // Space axes leave first: per-device shapes and collectives, still one
    // strand.
    makeStage<LocalizeOptions, buildLocalizePipeline>(
        "localize", "Per-device shapes and collectives: the localize stage",
        nest<createVerifyLocalizedPass>),
    // Time axes leave: one strand per microbatch. No form is left afterwards.
    makeStage<DuplexOptions, buildDuplexPipeline>(
        "duplex", "One strand per point of a time axis: the duplex stage",
        nest<createVerifyDuplexedPass>),
    // When each strand computes and communicates.
    makeStage<ScheduleOptions, buildSchedulePipeline>(
        "schedule", "Steps on queues with events: the schedule stage",
        nest<createVerifyScheduledPass>),
    // Kernels, library calls and memory: all that is left is to write it down.
    makeStage<LowerOptions, buildLowerPipeline>(
        "lower",
        "Commands on buffers in an arena, and kernels: the lower stage",
        add<lower::createVerifyLowered>),
};

llvm::ArrayRef<Stage> getStages() { return kStageTable; }

const Stage *findStage(llvm::StringRef name) {
  const Stage *stage = llvm::find_if(
      kStageTable, [&](const Stage &each) { return each.name == name; });
  return stage == std::end(kStageTable) ? nullptr : stage;
}

void addStage(OpPassManager &manager, const Stage &stage,
              const Options &options, const PlanExchange &exchange) {
  stage.build(manager, options, exchange);
  stage.verify(manager);
}

//===----------------------------------------------------------------------===//
// Command lines
//===----------------------------------------------------------------------===//

/// A plan can only be made for what is a step.
static void addMakePlan(OpPassManager &manager,
                        const mlir::EmptyPipelineOptions &) {
  addVerifyNumbered(manager);
  manager.addPass(createMakePlanPass());
}

/// A table can only be made of what is a step with a plan.
static void addPrintPlan(OpPassManager &manager,
                         const mlir::EmptyPipelineOptions &) {
  addVerifyNumbered(manager);
  manager.addPass(createVerifyPlanPass());
  manager.addPass(createPrintPlanPass());
}

/// Emit takes for granted what lower verifies.
static void addEmit(OpPassManager &manager,
                    const EmitPipelineOptions &options) {
  kStageTable[std::size(kStageTable) - 1].verify(manager);
  manager.addPass(createEmitPass({options.output}));
}

/// What is given may have been edited by hand, so the verifier at the exit of
/// the stage before looks at it first. Import looks itself.
static void registerStages() {
  void (*enter)(OpPassManager &) = [](OpPassManager &) {};
  for (const Stage &stage : kStageTable) {
    stage.registerFlag(stage, enter);
    enter = stage.verify;
  }
}

void registerPipelines() {
  registerImportPasses();
  registerAccumulatePasses();
  registerCutPasses();
  registerVerifyPlanPass();
  registerShardPasses();
  registerLocalizePasses();
  registerOutlinePasses();
  registerDuplexPasses();
  registerSchedulePasses();
  registerLowerPasses();
  registerKernelPasses();
  registerStages();
  registerPipeline<mlir::EmptyPipelineOptions>(
      "tandem-make-plan",
      "Chooses the forms of arguments and a signature per operator",
      addMakePlan);
  registerPipeline<mlir::EmptyPipelineOptions>(
      "tandem-print-plan", "Prints the plan as a table to standard error",
      addPrintPlan);
  registerPipeline<EmitPipelineOptions>(
      "tandem-emit", "Writes the Program of lowered IR to a file", addEmit);
}

} // namespace tandem
