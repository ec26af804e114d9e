//===- SearchPlan.cpp - a plan by search ----------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HidupPlan.h"
#include "Laptop.h"
#include "PlanFile.h"
#include "Presets.h"
#include "StartPlans.h"
#include "WriteDecisions.h"
#include "mlir/IR/Diagnostics.h"
#include "tandem/Search/Explain.h"
#include "tandem/Search/Search.h"
#include "tandem/Search/Watch.h"
#include "llvm/Support/FormatVariadic.h"
#include <chrono>

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

/// Not a search: takes the cheapest preset.
static constexpr llvm::StringLiteral kPresetSearch = "presets";
/// Larger problems are not searched in one strand as well, so that presets in
/// one strand are of little use there, and costing them takes time.
static constexpr size_t kMaxInOneStrand = 1200;

/// What a search gets whose time is over, in s: it ends at once.
static constexpr double kLeastTime = 1e-6;

/// Searches a problem of its own.
static constexpr llvm::StringLiteral kHidup = "hidup";

using Clock = std::chrono::steady_clock;

namespace {
class Planner {
public:
  Planner(StepGraph &graph, const SearchSettings &settings, StringRef preset,
          StringRef pins)
      : graph(graph), settings(settings), preset(preset), pins(pins) {}
  FailureOr<Decisions> run();
  FailureOr<cost::Plan> find();
  FailureOr<Decisions> costAgain(const PlanFile &file);
  FailureOr<cost::Plan> price(const PlanFile &file);
  const Extraction &getExtraction() const { return *extraction; }

private:
  InFlightDiagnostic emitError() { return mlir::emitError(graph.getLoc()); }
  FailureOr<cost::Cluster> getCluster();
  LogicalResult extract();
  LogicalResult writeProblem(const cost::SearchProblem &problem);
  LogicalResult findHidup(cost::Plan &plan);
  FailureOr<Decisions> takePreset();
  double getTimeLeft() const;
  bool isOver() const { return getTimeLeft() == kLeastTime; }
  search::SearchOptions getOptions(search::Watch &watch) const;
  search::SearchResult search();
  LogicalResult decide(cost::Plan &plan);
  Decisions report(const cost::Plan &plan, StringRef name);
  bool obeys(StringRef text) const;
  LogicalResult ask(const cost::Plan &plan) {
    return answer(graph, *extraction, plan, settings.questions,
                  *settings.result);
  }

  StepGraph &graph;
  const SearchSettings &settings;
  StringRef preset, pins;
  PinFlags isPinned;
  std::unique_ptr<Extraction> extraction;
  std::vector<cost::Plan> starts;
  std::string clusterName;
  /// When the search has begun, with the plans that it starts from.
  Clock::time_point begin;
};
} // namespace

/// The laptop has as many devices as the mesh has points.
FailureOr<cost::Cluster> Planner::getCluster() {
  std::string error;
  std::optional<cost::Cluster> cluster;
  if (settings.cluster.empty()) {
    cluster = cost::parseCluster(kLaptop, "laptop.yaml", error);
    if (cluster)
      cluster->nodes = {{1, {{0, graph.mesh.getNumRanks()}}}};
  } else {
    cluster = cost::readCluster(settings.cluster, error);
  }
  if (!cluster)
    return emitError() << error;
  return *cluster;
}

LogicalResult Planner::extract() {
  auto parsed = parsePins(graph.step, graph.mesh, pins);
  if (failed(parsed) || failed(applyPins(graph, *parsed, isPinned)))
    return failure();
  if (!settings.algorithm.empty() && failed(checkMicrobatches(graph, isPinned)))
    return failure();
  FailureOr<cost::Cluster> cluster = getCluster();
  if (failed(cluster))
    return failure();
  clusterName = cluster->name;
  auto extracted = extractProblem(graph, isPinned, *cluster);
  if (failed(extracted))
    return failure();
  extraction = std::move(*extracted);
  return settings.algorithm == kHidup ? success()
                                      : writeProblem(extraction->problem);
}

LogicalResult Planner::writeProblem(const cost::SearchProblem &problem) {
  if (settings.problemOut.empty())
    return success();
  std::error_code code;
  llvm::raw_fd_ostream os(settings.problemOut, code);
  if (code)
    return emitError() << "cannot write the problem '" << settings.problemOut
                       << "': " << code.message();
  os << cost::print(problem);
  return success();
}

/// Of the limit, which the first of several searches may have used up; 0
/// without one.
double Planner::getTimeLeft() const {
  std::chrono::duration<double> spent = Clock::now() - begin;
  return settings.timeLimit > 0
             ? std::max(settings.timeLimit - spent.count(), kLeastTime)
             : 0;
}

search::SearchOptions Planner::getOptions(search::Watch &watch) const {
  search::SearchOptions options;
  options.timeLimit = getTimeLeft();
  options.progress = [&watch](double done, double best, double bound) {
    return watch.show(done, best, bound);
  };
  return options;
}

search::SearchResult Planner::search() {
  begin = Clock::now();
  auto addPresets = [&](bool isInOneStrand) {
    llvm::append_range(
        starts, findPresetPlans(graph, *extraction, isPinned, isInOneStrand));
  };
  if (settings.algorithm == kPresetSearch || settings.usesPresets)
    addPresets(/*isInOneStrand=*/false);
  if (settings.algorithm == kPresetSearch)
    return takeCheapest(extraction->problem, std::move(starts));
  // Plans that are no worse than with one microbatch, and than of `hidup`.
  if (settings.usesPresets && graph.mesh.getNumStrands() > 1 && !isOver() &&
      extraction->problem.operators.size() <= kMaxInOneStrand)
    addPresets(/*isInOneStrand=*/true);
  if (settings.usesPresets && settings.algorithm == "tandem" && pins.empty() &&
      !isOver())
    if (auto hidup = findHidupPlan(graph, *extraction, getTimeLeft(),
                                   settings.endsSearch))
      starts.push_back(std::move(*hidup));
  search::Watch watch(settings.endsSearch);
  search::SearchOptions options = getOptions(watch);
  options.starts = std::move(starts);
  return search::findAlgorithm(settings.algorithm)(extraction->problem,
                                                   options);
}

LogicalResult Planner::decide(cost::Plan &plan) {
  if (settings.chosen) {
    plan = *settings.chosen;
    return success();
  }
  if (settings.algorithm != kPresetSearch &&
      !search::findAlgorithm(settings.algorithm))
    return emitError()
           << "search '" << settings.algorithm
           << "', expected tandem, hidup, ilp, exhaustive or presets";
  search::SearchResult result = search();
  if (!result.plan)
    return emitError() << "no plan: " << result.error
                       << (result.lacksMemory
                               ? suggestMemory(extraction->problem,
                                               settings.recomputes)
                               : "");
  std::string error;
  if (!search::verifyPlan(extraction->problem, *result.plan, error))
    return emitError() << "the search '" << settings.algorithm
                       << "' made a wrong plan: " << error;
  plan = std::move(*result.plan);
  return success();
}

std::string tandem::plan::printGap(const cost::Plan &plan) {
  if (plan.isOptimal)
    return ", optimal";
  if (plan.lowerBound <= 0)
    return "";
  return llvm::formatv(", at most {0:f2} % above the best",
                       100 * cost::getGap(plan.cost, plan.lowerBound))
      .str();
}

/// One line: what the plan costs, and how far that may be from the best.
Decisions Planner::report(const cost::Plan &plan, StringRef name) {
  auto line = mlir::emitRemark(graph.step.getLoc());
  line << name << ": cost " << cost::printSeconds(plan.cost) << ", peak "
       << plan.peak << " B on " << clusterName;
  std::string gap = printGap(plan);
  line << (gap.empty() ? ", without a proven bound" : gap);
  if (!pins.empty() && plan.lowerBound > 0)
    line << " under its pins";
  int64_t limit = extraction->problem.memoryLimit;
  if (plan.peak > limit)
    mlir::emitWarning(graph.step.getLoc())
        << name << ": the plan holds " << plan.peak
        << " B at its peak, a device of '" << clusterName << "' has " << limit
        << " B; use --search tandem for a plan that fits";
  Decisions decisions = makeDecisions(*extraction, plan);
  if (plan.peak <= limit && !settings.cluster.empty())
    decisions.memoryLimit = limit;
  decisions.cluster = clusterName;
  decisions.pins = pins.str();
  return decisions;
}

/// Whether the forms of `graph` are those that the pins ask for.
bool Planner::obeys(StringRef text) const {
  std::optional<StepGraph> pinned = tryPins(graph, text);
  return pinned && obeysPins(*pinned) &&
         llvm::equal(pinned->arguments, graph.arguments,
                     [](const ArgumentNode &a, const ArgumentNode &b) {
                       return a.forms == b.forms;
                     });
}

FailureOr<cost::Plan> Planner::find() {
  cost::Plan plan;
  if (failed(extract()) ||
      failed(addStart(graph, *extraction, settings, starts)) ||
      failed(decide(plan)))
    return failure();
  return plan;
}

LogicalResult Planner::findHidup(cost::Plan &plan) {
  FailureOr<ForwardProblem> forward = makeForwardProblem(graph, *extraction);
  if (failed(forward) || failed(writeProblem(forward->problem)))
    return failure();
  begin = Clock::now();
  search::Watch watch(settings.endsSearch);
  auto found = planByHidup(graph, *extraction, *forward, getOptions(watch));
  if (failed(found))
    return failure();
  plan = std::move(*found);
  return success();
}

/// Takes the preset as it is: signatures alone decide, `shard` and `schedule`
/// do as always. Says what it costs, if somebody asks.
FailureOr<Decisions> Planner::takePreset() {
  auto signatures = planByPreset(graph, *extraction, isPinned, preset);
  if (failed(signatures))
    return failure();
  applyPlan(graph, *extraction, *signatures);
  if (!settings.isWanted())
    return Decisions();
  std::string name = "preset " + preset.str(), error;
  auto plan = completePreset(extraction->problem, *signatures, error);
  if (!plan)
    return emitError() << name << " has no cost: " << error;
  Decisions decisions = report(*plan, name);
  if (failed(ask(*plan)))
    return failure();
  decisions.copies.clear();
  if (settings.writesSeconds)
    writeSeconds(graph, *extraction, *plan);
  return decisions;
}

FailureOr<Decisions> Planner::run() {
  if (failed(extract()) ||
      failed(addStart(graph, *extraction, settings, starts)))
    return failure();
  if (settings.algorithm.empty())
    return takePreset();
  cost::Plan plan;
  if (failed(settings.algorithm == kHidup ? findHidup(plan) : decide(plan)))
    return failure();
  applyPlan(graph, *extraction, plan);
  Decisions decisions = report(plan, "search " + settings.algorithm);
  decisions.search = settings.algorithm;
  if (failed(ask(plan)))
    return failure();
  if (settings.writesSeconds)
    writeSeconds(graph, *extraction, plan);
  return decisions;
}

/// The plan of a file, costed, also where it does not fit, which `report` says;
/// `graph` has its signatures.
FailureOr<cost::Plan> Planner::price(const PlanFile &file) {
  const Decisions &old = file.decisions;
  // What was proven under pins is said under them.
  if (!old.pins.empty() && obeys(old.pins))
    pins = old.pins;
  if (failed(extract()))
    return failure();
  FailureOr<cost::Plan> plan = makePlan(graph, *extraction, old, file.path);
  if (failed(plan))
    return failure();
  std::string error;
  if (!cost::derive(extraction->problem, *plan, error, cost::LimitUse::Ignore))
    return emitError() << "plan file '" << file.path << "': " << error
                       << (old.isUnstaged()
                               ? ""
                               : "; leave out its lines 'stage', 'copy' and "
                                 "'wait' to have them chosen anew");
  plan->lowerBound = 0;
  plan->isOptimal = false;
  // What was proven of this very problem: the same pins, prices and memory.
  if (old.bound > 0 &&
      old.proof == cost::getProofHash(extraction->problem, old.bound)) {
    plan->lowerBound = std::min(old.bound, plan->cost);
    plan->isOptimal = cost::isProven(plan->cost, old.bound);
  }
  return plan;
}

FailureOr<Decisions> Planner::costAgain(const PlanFile &file) {
  FailureOr<cost::Plan> plan = price(file);
  if (failed(plan))
    return failure();
  Decisions decisions = report(*plan, "plan " + file.path);
  decisions.search = file.decisions.search;
  if (failed(ask(*plan)))
    return failure();
  if (settings.writesSeconds)
    writeSeconds(graph, *extraction, *plan);
  return decisions;
}

FailureOr<Decisions> tandem::plan::planBySearch(StepGraph &graph,
                                                const SearchSettings &settings,
                                                StringRef preset,
                                                StringRef pins) {
  return Planner(graph, settings, preset, pins).run();
}

FailureOr<cost::Plan> tandem::plan::findPlan(StepGraph &graph,
                                             const SearchSettings &settings,
                                             StringRef pins) {
  return Planner(graph, settings, "", pins).find();
}

FailureOr<Decisions> tandem::plan::costAgain(StepGraph &graph,
                                             const SearchSettings &settings,
                                             const PlanFile &file) {
  return Planner(graph, settings, "", "").costAgain(file);
}

FailureOr<std::string>
tandem::plan::compareFiles(StepGraph &graph, const SearchSettings &settings,
                           const PlanFile &file, StepGraph &otherGraph,
                           const PlanFile &other) {
  Planner first(graph, settings, "", ""), second(otherGraph, settings, "", "");
  FailureOr<cost::Plan> plan = first.price(file);
  if (failed(plan))
    return failure();
  FailureOr<cost::Plan> otherPlan = second.price(other);
  if (failed(otherPlan))
    return failure();
  std::string error;
  std::string text =
      search::compare(first.getExtraction().problem, *plan,
                      second.getExtraction().problem, *otherPlan, error);
  if (error.empty())
    return text;
  return mlir::emitError(graph.step.getLoc()) << error;
}
