//===- MakePlan.cpp - the plan stage --------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AutoMesh.h"
#include "AxisRates.h"
#include "CheckDecisions.h"
#include "PlanFile.h"
#include "Presets.h"
#include "SearchPlan.h"
#include "WriteDecisions.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "tandem/Support/TextFile.h"
#include "tandem/Transforms/Plan/Plan.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

namespace tandem {
#define GEN_PASS_DEF_MAKEPLANPASS
#include "tandem/Transforms/Plan/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

namespace {
struct MakePlanPass : tandem::impl::MakePlanPassBase<MakePlanPass> {
  MakePlanPass() = default;
  MakePlanPass(const MakePlanPass &other)
      : MakePlanPassBase(other), options(other.options) {}
  explicit MakePlanPass(std::shared_ptr<PlanOptions> options)
      : options(std::move(options)) {}

  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<SPMDDialect>();
  }
  void runOnOperation() override {
    if (failed(run()))
      signalPassFailure();
  }

private:
  LogicalResult run();
  LogicalResult findMesh();
  FailureOr<std::optional<PlanFile>> readFile();
  FailureOr<Decisions> plan(StepGraph &graph);
  FailureOr<Decisions> apply(StepGraph &graph, PlanFile &file);
  LogicalResult compare(StepGraph &graph, const PlanFile &file);
  LogicalResult write(const StepGraph &graph, const Decisions &decisions);

  /// Of this pass and its copies.
  std::shared_ptr<PlanOptions> options = std::make_shared<PlanOptions>();
  /// As the options have them, a plan file, or a search on all meshes.
  std::string mesh;
  int64_t micro = 1;
  std::optional<cost::Plan> chosen;
  /// The step on no mesh.
  std::optional<StepGraph> step;
};
} // namespace

FailureOr<Decisions> MakePlanPass::plan(StepGraph &graph) {
  auto decisions = planBySearch(graph, *options, std::move(chosen));
  if (failed(decisions))
    return failure();
  if (options->search.empty()) {
    warnOfUnsplit(graph, options->getPreset());
    return decisions;
  }
  warnOfOneStrand(graph, decisions->cluster);
  listUndivided(graph);
  return decisions;
}

//===----------------------------------------------------------------------===//
// Plan files
//===----------------------------------------------------------------------===//

/// A search's plan that was costed is followed as its prices have it.
FailureOr<Decisions> MakePlanPass::apply(StepGraph &graph, PlanFile &file) {
  if (failed(readPlan(graph, file)))
    return failure();
  Decisions decisions = file.decisions;
  bool isSearched = !decisions.search.empty();
  bool isOpen = decisions.isUnstaged() || lacksPieces(graph, decisions);
  if ((isSearched && isOpen) || isPriced(*options)) {
    auto again = costAgain(graph, *options, file);
    if (failed(again))
      return failure();
    decisions = *again;
    if (isSearched) {
      // Of another cluster's prices all lines may say otherwise.
      if (file.decisions.cluster == decisions.cluster)
        reportMoved(graph, file, decisions);
      file.decisions = decisions;
    }
  }
  if (failed(compare(graph, file)))
    return failure();
  return decisions;
}

/// Compares the plan of a file with that of another one.
LogicalResult MakePlanPass::compare(StepGraph &graph, const PlanFile &file) {
  if (options->compareWith.empty())
    return success();
  StepGraph otherStep =
      findOtherStep(*step, options->exchange, options->compareWith)
          .value_or(*step);
  auto other = readPlanFile(otherStep, options->compareWith);
  if (failed(other))
    return failure();
  FailureOr<MeshAttr> axes =
      parseMesh(graph.getLoc(), other->mesh, other->micro, other->path);
  if (failed(axes))
    return failure();
  StepGraph otherGraph = otherStep.onMesh(*axes);
  if (failed(readPlan(otherGraph, *other)))
    return failure();
  auto text = compareFiles(graph, *options, file, otherGraph, *other);
  if (failed(text))
    return failure();
  options->exchange.result->comparison = *text;
  return success();
}

/// None without an option; its mesh takes the place of the options'.
FailureOr<std::optional<PlanFile>> MakePlanPass::readFile() {
  const std::string &planFile = options->planFile;
  if (planFile.empty())
    return std::optional<PlanFile>();
  if (findOtherStep(*step, options->exchange, planFile))
    return emitOtherStep(*step, options->exchange, planFile);
  auto file = readPlanFile(*step, planFile);
  if (failed(file))
    return failure();
  if (!mesh.empty() && mesh != file->mesh)
    return emitError(step->getLoc())
           << "plan file '" << planFile << "' is for the mesh " << file->mesh
           << " with micro=" << file->micro << ", expected a plan for the mesh "
           << mesh << ", or no mesh beside it";
  if (micro != 1 && micro != file->micro)
    return emitError(step->getLoc())
           << "plan file '" << planFile << "' is for micro=" << file->micro
           << ", but micro=" << micro;
  mesh = file->mesh;
  micro = file->micro;
  return std::optional(std::move(*file));
}

//===----------------------------------------------------------------------===//
// The stage
//===----------------------------------------------------------------------===//

/// Sets the mesh, and the plan that was found on it.
LogicalResult MakePlanPass::findMesh() {
  if (mesh != kAutoMesh)
    return success();
  if (options->search.empty())
    options->search = "tandem";
  auto choice = chooseMesh(*step, *options);
  if (failed(choice))
    return failure();
  mesh = choice->mesh;
  chosen = std::move(choice->plan);
  return success();
}

LogicalResult MakePlanPass::write(const StepGraph &graph,
                                  const Decisions &decisions) {
  writeDecisions(graph, decisions);
  if (failed(writeRates(graph, options->cluster)))
    return failure();
  std::string &text = options->exchange.result->text;
  text = printPlan(graph, decisions);
  options->exchange.result->peak = decisions.peak;
  options->exchange.result->cost = decisions.cost;
  options->exchange.result->gap = cost::getGap(decisions.cost, decisions.bound);
  const std::string &output = options->output;
  if (output.empty())
    return success();
  std::string error;
  if (writeTextFile(output, kPlanFile, text, error))
    return success();
  return emitError(step->getLoc())
         << "cannot write the plan file '" << output << "': " << error;
}

LogicalResult MakePlanPass::run() {
  ModuleOp module = getOperation();
  auto function = module.lookupSymbol<func::FuncOp>("step");
  if (!function)
    return emitError(module.getLoc())
           << "the module has no function @step, expected a training step";
  clearDecisions(module);
  step.emplace(function);
  mesh = options->mesh;
  micro = options->micro;
  auto file = readFile();
  if (failed(file) || failed(findMesh()))
    return failure();
  FailureOr<MeshAttr> axes = parseMesh(function.getLoc(), mesh, micro,
                                       options->planFile, options->timeAxis);
  if (failed(axes))
    return failure();
  StepGraph graph = step->onMesh(*axes);
  const std::string &compared = options->compareWith;
  if (!compared.empty() && !*file)
    return emitError(function.getLoc())
           << "found one plan to compare, '" << compared
           << "', expected a plan file beside it";
  auto decisions = *file ? apply(graph, **file) : plan(graph);
  if (failed(decisions))
    return failure();
  return write(graph, *decisions);
}

std::unique_ptr<Pass> tandem::createPlanPass(const PlanOptions &options) {
  auto own = std::make_shared<PlanOptions>();
  own->copyOptionValuesFrom(options);
  own->exchange = options.exchange;
  return std::make_unique<MakePlanPass>(std::move(own));
}
