//===- StartPlans.cpp - plans that a search starts from -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StartPlans.h"
#include "HidupPlan.h"
#include "Presets.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::plan;

static constexpr const char *kPresets[] = {
    "replicate", "data-parallel", "zero", "tensor-parallel", "expert-parallel"};

LogicalResult tandem::plan::addStart(const StepGraph &graph,
                                     const Extraction &extraction,
                                     const SearchSettings &settings,
                                     std::vector<cost::Plan> &starts) {
  if (settings.start.empty())
    return success();
  if (settings.algorithm != "tandem" && settings.algorithm != "ilp")
    return emitError(graph.getLoc())
           << "start '" << settings.start << "' with "
           << (settings.algorithm.empty()
                   ? "no search"
                   : "the search '" + settings.algorithm + "'")
           << ", expected tandem or ilp, which begin with plans";
  FailureOr<PlanFile> file = readPlanFile(graph, settings.start);
  if (failed(file))
    return failure();
  if (file->mesh != getMeshText(graph.mesh) ||
      file->micro != graph.mesh.getNumStrands()) {
    if (settings.fitsAnyStart)
      return success();
    return emitError(graph.getLoc())
           << "plan file '" << settings.start << "' is for the mesh "
           << file->mesh << " with micro=" << file->micro
           << ", but the mesh is " << getMeshText(graph.mesh)
           << " with micro=" << graph.mesh.getNumStrands();
  }
  StepGraph planned = graph.onMesh(graph.mesh);
  if (failed(readPlan(planned, *file)))
    return failure();
  FailureOr<cost::Plan> start =
      makePlan(planned, extraction, file->decisions, settings.start);
  if (failed(start))
    return failure();
  starts.push_back(std::move(*start));
  return success();
}

std::vector<cost::Plan>
tandem::plan::findPresetPlans(const StepGraph &graph,
                              const Extraction &extraction, StringRef pins,
                              bool isInOneStrand) {
  std::vector<cost::Plan> presets;
  const StepGraph unplanned = graph.onMesh(graph.mesh);
  for (const char *name : kPresets) {
    ScopedDiagnosticHandler silent(graph.mesh.getContext(),
                                   [](Diagnostic &) { return success(); });
    StepGraph planned = unplanned;
    std::string error;
    if (failed(planByPreset(planned, name, pins, isInOneStrand)))
      continue;
    if (auto start = convertPlan(planned, extraction, error))
      presets.push_back(std::move(*start));
  }
  return presets;
}

std::optional<cost::Plan>
tandem::plan::findHidupPlan(const StepGraph &graph,
                            const Extraction &extraction, StringRef pins) {
  ScopedDiagnosticHandler silent(graph.mesh.getContext(),
                                 [](Diagnostic &) { return success(); });
  // It knows no pins.
  if (!pins.empty())
    return std::nullopt;
  FailureOr<ForwardProblem> forward = makeForwardProblem(graph, extraction);
  StepGraph planned = graph.onMesh(graph.mesh);
  std::string error;
  if (failed(forward) || failed(planByHidup(planned, extraction, *forward, {})))
    return std::nullopt;
  return convertPlan(planned, extraction, error);
}

search::SearchResult
tandem::plan::takeCheapest(const cost::SearchProblem &problem,
                           std::vector<cost::Plan> presets) {
  search::SearchResult result;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const cost::Plan &start : presets)
    least = std::min(least, start.peak);
  int64_t limit = problem.memoryLimit;
  result.error = "no preset fits into " + std::to_string(limit) + " bytes" +
                 (presets.empty() ? ""
                                  : "; the smallest one exceeds them by " +
                                        std::to_string(least - limit)) +
                 ": use --search tandem for a plan that fits";
  for (cost::Plan &start : presets) {
    ++result.numVisited;
    std::string error;
    if ((!result.plan || start.cost < result.plan->cost) &&
        cost::derive(problem, start, error))
      result.plan = std::move(start);
  }
  return result;
}
