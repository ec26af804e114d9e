//===- SearchPlan.cpp - a plan by search ----------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ApplyPlan.h"
#include "AxisRates.h"
#include "ExplainMemory.h"
#include "ExplainPlan.h"
#include "HidupPlan.h"
#include "Presets.h"
#include "StartPlans.h"
#include "WriteDecisions.h"
#include "mlir/IR/Diagnostics.h"
#include "tandem/Dialect/SPMD/MeshText.h"
#include "tandem/Explain/Explain.h"
#include "tandem/Search/Search.h"
#include "tandem/Search/Watch.h"
#include "tandem/Support/ByteSize.h"
#include "tandem/Support/TextFile.h"
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
/// Of larger problems the guides' forms are as good a start as those of a
/// search without a limit, which would take as long as all else.
static constexpr size_t kMaxUnlimited = 1000;

/// What a search gets whose time is over, in s: it ends at once.
static constexpr double kLeastTime = 1e-6;

/// Searches a problem of its own.
static constexpr llvm::StringLiteral kHidup = "hidup";

using Clock = std::chrono::steady_clock;

namespace {
class Planner {
public:
  Planner(StepGraph &graph, const PlanOptions &options, StringRef pins)
      : graph(graph), options(options), pins(pins),
        timeLimit(options.searchTimeLimit) {}
  FailureOr<Decisions> run(std::optional<cost::Plan> chosen);
  FailureOr<cost::Plan> findOneOfMany(double timeLimit);
  FailureOr<Decisions> costAgain(const PlanFile &file);
  FailureOr<cost::Plan> price(const PlanFile &file);
  const Extraction &getExtraction() const { return *extraction; }
  /// Whether no plan fits, as the last search has proven.
  bool isInfeasible = false;

private:
  InFlightDiagnostic emitError() { return mlir::emitError(graph.getLoc()); }
  LogicalResult extract();
  void setLimit();
  void noteResult(const search::SearchResult &result);
  LogicalResult checkPeak(const cost::Plan &plan, StringRef name);
  LogicalResult writeProblem(const cost::SearchProblem &problem);
  FailureOr<cost::Plan> find();
  FailureOr<cost::Plan> findHidup(const search::SearchOptions &ofSearch);
  search::SearchResult chooseSources(const cost::Plan &preset);
  void fitPresets();
  std::optional<cost::Plan> complete(cost::Plan plan) const;
  /// A plan that takes sums of the forward pass, and what it costs.
  struct Saved {
    StepGraph graph;
    std::unique_ptr<Extraction> extraction;
    cost::Plan plan, priced;
  };
  std::optional<cost::Plan> planSaved(const StepGraph &first);
  std::optional<Saved> tryToSave(const StepGraph &planned,
                                 ArrayRef<unsigned> choices);
  LogicalResult saveSums(cost::Plan &plan);
  FailureOr<Decisions> takePreset();
  void tellIdle();
  double getTimeLeft() const;
  /// Whether there is time for another search, and whoever asked waits for it.
  bool isOver() const {
    return getTimeLeft() == kLeastTime ||
           (options.exchange.endsSearch && options.exchange.endsSearch());
  }
  search::SearchOptions getOptions(search::Watch &watch) const;
  void addHidup();
  void addUnlimited(search::Watch &watch);
  search::SearchResult search();
  FailureOr<Decisions> report(const cost::Plan &plan, StringRef name,
                              StringRef search);

  StepGraph &graph;
  const PlanOptions &options;
  StringRef pins;
  double timeLimit;
  /// Plans for several meshes are searched, to take the cheapest.
  bool isOneOfMany = false;
  std::unique_ptr<Extraction> extraction;
  std::vector<cost::Plan> starts;
  std::string clusterName;
  /// When the search begins, with the plans that it starts from.
  Clock::time_point begin;
};
} // namespace

/// For callers, who may offer more where memory is the reason for no plan.
void Planner::noteResult(const search::SearchResult &result) {
  PlanResult &told = *options.exchange.result;
  told.lacksMemory |= result.lacksMemory;
  told.smallestPeak = result.smallestPeak;
  int64_t bytes = std::max(result.leastBytes, result.smallestPeak);
  if (result.lacksMemory && bytes > 0)
    told.excess = bytes - extraction->problem.memoryLimit;
}

/// What is asked for, or else the memory of a cluster that somebody named.
void Planner::setLimit() {
  int64_t &limit = extraction->problem.memoryLimit;
  if (options.memory >= 0)
    limit = options.memory;
  else if (options.cluster.empty())
    limit = cost::kNoLimit;
}

LogicalResult Planner::extract() {
  if (failed(applyPins(graph, pins)))
    return failure();
  if (!options.search.empty() && failed(checkMicrobatches(graph)))
    return failure();
  FailureOr<cost::Cluster> cluster = getCluster(graph, options.cluster);
  if (failed(cluster))
    return failure();
  clusterName = cluster->name;
  auto extracted = extractProblem(graph, *cluster);
  if (failed(extracted))
    return failure();
  extraction = std::move(*extracted);
  setLimit();
  begin = Clock::now();
  return options.search == kHidup ? success()
                                  : writeProblem(extraction->problem);
}

LogicalResult Planner::writeProblem(const cost::SearchProblem &problem) {
  if (options.problemOut.empty() || isOneOfMany)
    return success();
  std::string error;
  if (writeTextFile(options.problemOut, kProblemFile, cost::print(problem),
                    error))
    return success();
  return emitError() << "cannot write the problem '" << options.problemOut
                     << "': " << error;
}

/// Of the limit, which the first of several searches may have used up; 0
/// without one.
double Planner::getTimeLeft() const {
  std::chrono::duration<double> spent = Clock::now() - begin;
  return timeLimit > 0 ? std::max(timeLimit - spent.count(), kLeastTime) : 0;
}

search::SearchOptions Planner::getOptions(search::Watch &watch) const {
  search::SearchOptions ofSearch;
  ofSearch.timeLimit = getTimeLeft();
  // What is made again gets to a plan that fits in less time.
  if (options.exchange.mayOffer)
    ofSearch.without.add(search::Mechanism::MakeFit);
  ofSearch.progress = [&watch](double done, double best, double bound) {
    return watch.show(done, best, bound);
  };
  return ofSearch;
}

/// Of a problem with fewer signatures: what is proven is of these alone.
static void takeOrigins(cost::Plan &plan,
                        const std::vector<std::vector<unsigned>> &origins) {
  for (auto [signature, ofOperator] : llvm::zip(plan.signatures, origins))
    signature = ofOperator[signature];
  plan.lowerBound = 0;
  plan.isOptimal = false;
}

/// HiDup's plan as a start, where it makes one in time. It knows no pins.
void Planner::addHidup() {
  if (!pins.empty() || isOver())
    return;
  ScopedDiagnosticHandler silent(graph.mesh.getContext(),
                                 [](Diagnostic &) { return success(); });
  search::SearchOptions ofSearch;
  ofSearch.timeLimit = getTimeLeft();
  // Its costs are of another accounting: not for who watches the search.
  ofSearch.progress = [&](double, double, double) {
    return !options.exchange.endsSearch || !options.exchange.endsSearch();
  };
  if (auto plan = findHidup(ofSearch); succeeded(plan))
    starts.push_back(std::move(*plan));
}

/// Where values may be made again, the plan that would be taken without a limit
/// is a start: its forms are good ones, and sources alone may make it fit. It
/// makes nothing again that it need not.
void Planner::addUnlimited(search::Watch &watch) {
  const cost::SearchProblem &whole = extraction->problem;
  if (whole.memoryLimit == cost::kNoLimit ||
      whole.operators.size() > kMaxUnlimited)
    return;
  std::vector<std::vector<unsigned>> origins;
  std::optional<cost::SearchProblem> saved = saveAll(whole, origins);
  cost::SearchProblem problem = saved ? std::move(*saved) : whole;
  problem.memoryLimit = cost::kNoLimit;
  search::SearchOptions ofSearch = getOptions(watch);
  // Starts are of the whole problem.
  if (!saved)
    ofSearch.starts = starts;
  search::SearchResult found = search::searchTandem(problem, ofSearch);
  std::string error;
  if (!found.plan)
    return;
  if (saved)
    takeOrigins(*found.plan, origins);
  if (cost::derive(whole, *found.plan, error, cost::LimitUse::Ignore))
    starts.push_back(std::move(*found.plan));
}

search::SearchResult Planner::search() {
  auto addPresets = [&](bool isInOneStrand) {
    llvm::append_range(starts,
                       findPresetPlans(graph, *extraction, isInOneStrand));
  };
  // Other searches need no start, or begin with a plan of `tandem`.
  bool usesPresets = options.presets && options.search == "tandem";
  if (options.search == kPresetSearch || usesPresets)
    addPresets(/*isInOneStrand=*/false);
  if (options.search == kPresetSearch) {
    fitPresets();
    return takeCheapest(extraction->problem, std::move(starts));
  }
  // Plans that are no worse than with one microbatch, and than of `hidup`.
  if (usesPresets && graph.mesh.getNumStrands() > 1 && !isOver() &&
      extraction->problem.operators.size() <= kMaxInOneStrand)
    addPresets(/*isInOneStrand=*/true);
  if (usesPresets)
    addHidup();
  search::Watch watch(options.exchange.endsSearch);
  if (options.search == "tandem" && graph.hasChoices())
    addUnlimited(watch);
  search::SearchOptions ofSearch = getOptions(watch);
  ofSearch.starts = std::move(starts);
  return search::findAlgorithm(options.search)(extraction->problem, ofSearch);
}

FailureOr<cost::Plan> Planner::find() {
  const std::string &name = options.search;
  if (name == kHidup) {
    search::Watch watch(options.exchange.endsSearch);
    return findHidup(getOptions(watch));
  }
  if (name != kPresetSearch && !search::findAlgorithm(name))
    return emitError() << "search '" << name
                       << "', expected tandem, hidup, ilp, exhaustive or "
                          "presets";
  search::SearchResult result = search();
  const cost::SearchProblem &problem = extraction->problem;
  noteResult(result);
  isInfeasible = result.isInfeasible;
  if (!result.plan)
    return emitError() << "no plan: "
                       << explainNoPlan(problem, result, extraction->updated);
  std::string error;
  if (!search::verifyPlan(problem, *result.plan, error))
    return emitError() << "the search '" << name
                       << "' made a wrong plan: " << error;
  return std::move(*result.plan);
}

FailureOr<cost::Plan>
Planner::findHidup(const search::SearchOptions &ofSearch) {
  return planByHidup(
      graph, *extraction, ofSearch, [&](const cost::SearchProblem &problem) {
        return options.search == kHidup ? writeProblem(problem) : success();
      });
}

FailureOr<cost::Plan> Planner::findOneOfMany(double limit) {
  isOneOfMany = true;
  timeLimit = limit;
  if (failed(extract()) ||
      failed(addStart(graph, *extraction, options, isOneOfMany, starts)))
    return failure();
  return find();
}

//===----------------------------------------------------------------------===//
// What is said of a plan
//===----------------------------------------------------------------------===//

bool tandem::plan::isPriced(const PlanOptions &options) {
  return options.cost || options.timeline || options.explain ||
         options.failOnReplicate >= 0 || !options.search.empty() ||
         !options.cluster.empty() || options.memory >= 0 ||
         !options.problemOut.empty() || !options.start.empty() ||
         !options.compareWith.empty();
}

/// A limit that is asked for is none to exceed; the memory of a cluster is, by
/// plans that no search made for it, which are priced for many a cluster.
LogicalResult Planner::checkPeak(const cost::Plan &plan, StringRef name) {
  int64_t limit = extraction->problem.memoryLimit;
  if (plan.peak <= limit)
    return success();
  options.exchange.result->lacksMemory = true;
  options.exchange.result->excess = plan.peak - limit;
  if (options.memory >= 0)
    return emitError() << name << ": the plan "
                       << explainTooLarge(extraction->problem, plan,
                                          extraction->updated)
                       << "; expected memory of at least "
                       << printByteSize(plan.peak)
                       << ", or a search for a plan that fits";
  mlir::emitWarning(graph.getLoc())
      << name << ": the plan holds " << plan.peak
      << " B at its peak, a device of '" << clusterName << "' has " << limit
      << " B; use --search tandem for a plan that fits";
  return success();
}

/// One line: what the plan costs, and how far that may be from the best; and
/// all else that is asked. Gives its decisions.
FailureOr<Decisions> Planner::report(const cost::Plan &plan, StringRef name,
                                     StringRef search) {
  auto line = mlir::emitRemark(graph.getLoc());
  line << name << ": cost " << cost::printSeconds(plan.cost) << ", peak "
       << plan.peak << " B";
  if (options.memory >= 0 && extraction->problem.memoryLimit != cost::kNoLimit)
    line << " of at most " << extraction->problem.memoryLimit << " B";
  line << " on " << clusterName;
  std::string gap = printGap(plan);
  line << (gap.empty() ? ", without a proven bound" : gap);
  if (!pins.empty() && plan.lowerBound > 0)
    line << " under its pins";
  if (graph.step->getParentOfType<ModuleOp>()->hasAttr(kWholeMeshAttrName))
    line << ", all sections one after another";
  line.report();
  if (failed(checkPeak(plan, name)))
    return failure();
  Decisions decisions = makeDecisions(*extraction, plan);
  int64_t limit = extraction->problem.memoryLimit;
  if (plan.peak <= limit && limit != cost::kNoLimit)
    decisions.memoryLimit = limit;
  decisions.search = search.str();
  decisions.cluster = clusterName;
  decisions.pins = pins.str();
  if (failed(answer(graph, *extraction, plan, options)))
    return failure();
  if (options.timeline)
    writeSeconds(graph, *extraction, plan);
  return decisions;
}

//===----------------------------------------------------------------------===//
// Presets, searches and files
//===----------------------------------------------------------------------===//

/// With the forms of a preset that does not fit: the cheapest choice of what is
/// made again, or else the smallest one that was found, and why there is none.
/// None is worse than the preset, which the search begins with.
search::SearchResult Planner::chooseSources(const cost::Plan &preset) {
  std::vector<std::vector<unsigned>> origins;
  cost::SearchProblem problem = fixForms(*extraction, preset, origins);
  search::Watch watch(options.exchange.endsSearch);
  search::SearchOptions ofSearch = getOptions(watch);
  if (auto start = toFixedForms(problem, preset, origins))
    ofSearch.starts.push_back(std::move(*start));
  search::SearchResult result = search::searchTandem(problem, ofSearch);
  if (!result.plan)
    result.error = explainNoPlan(problem, result, extraction->updated);
  for (std::optional<cost::Plan> *plan : {&result.plan, &result.smallest}) {
    if (!*plan)
      continue;
    takeOrigins(**plan, origins);
    std::string error;
    if (!cost::derive(extraction->problem, **plan, error,
                      cost::LimitUse::Ignore))
      plan->reset();
  }
  return result;
}

/// Chooses sources for the presets among the starts that do not fit.
void Planner::fitPresets() {
  for (cost::Plan &start : starts) {
    if (!graph.hasChoices() || start.peak <= extraction->problem.memoryLimit)
      continue;
    search::SearchResult result = chooseSources(start);
    if (std::optional<cost::Plan> &found =
            result.plan ? result.plan : result.smallest)
      start = std::move(*found);
  }
}

void Planner::tellIdle() {
  if (pins.empty())
    return;
  if (auto cluster = getCluster(graph, options.cluster); succeeded(cluster))
    tellIdlePins(graph, pins, *cluster);
}

//===----------------------------------------------------------------------===//
// Sums that regions make again
//===----------------------------------------------------------------------===//

/// The regions' choices that make again what ranks sum.
static SmallVector<unsigned> findSummed(const StepGraph &planned) {
  SmallVector<unsigned> choices;
  auto isSummed = [&](unsigned value) {
    return llvm::any_of(planned.values[value].uses, [&](const Use &use) {
      spmd::Forms wanted = planned.getWanted(use);
      for (unsigned axis = 0; axis < planned.mesh.getNumSpaceAxes(); ++axis)
        if (planned.getForm(value, axis).isReduce() && !wanted[axis].isReduce())
          return true;
      return false;
    });
  };
  for (auto [index, choice] : llvm::enumerate(planned.regions))
    if (choice.source != 0 && choice.value >= 0 && isSummed(choice.value))
      choices.push_back(index);
  return choices;
}

/// A preset's with its stages and its price, in which the backward pass takes
/// finished sums of the forward pass, as it will; a search's has them.
std::optional<cost::Plan> Planner::complete(cost::Plan plan) const {
  if (!options.search.empty())
    return plan;
  std::string error;
  return pricePreset(extraction->problem, std::move(plan), error);
}

/// The plan of `graph`, whose regions save more than those of `first`, with the
/// same forms; a search goes on from it.
std::optional<cost::Plan> Planner::planSaved(const StepGraph &first) {
  ScopedDiagnosticHandler silent(graph.mesh.getContext(),
                                 [](Diagnostic &) { return success(); });
  Clock::time_point asked = begin;
  if (failed(extract()))
    return std::nullopt;
  begin = asked;
  StepGraph planned = graph;
  takeSignatures(planned, first);
  cost::Plan plan = convertPlan(planned, *extraction);
  if (options.search.empty()) {
    keepCopies(graph, *extraction, options.getPreset(), plan);
    return plan;
  }
  starts.clear();
  std::string error;
  if (auto start = completePreset(extraction->problem, plan, error))
    starts.push_back(std::move(*start));
  if (failed(addStart(graph, *extraction, options, isOneOfMany, starts)))
    return std::nullopt;
  FailureOr<cost::Plan> found = find();
  return failed(found) ? std::nullopt : std::optional(std::move(*found));
}

/// The plan with what these choices make again saved; `graph` stays.
std::optional<Planner::Saved> Planner::tryToSave(const StepGraph &planned,
                                                 ArrayRef<unsigned> choices) {
  SmallVector<unsigned> sources = planned.getRegionSources();
  for (unsigned choice : choices)
    sources[choice] = 0;
  StepGraph own = std::exchange(graph, graph.withSources(sources));
  std::unique_ptr<Extraction> first = std::move(extraction);
  bool lacked = options.exchange.result->lacksMemory;
  std::optional<cost::Plan> found = planSaved(planned), priced;
  if (found)
    priced = complete(*found);
  options.exchange.result->lacksMemory = lacked;
  std::swap(graph, own);
  std::swap(extraction, first);
  if (!priced)
    return std::nullopt;
  return Saved{std::move(own), std::move(first), std::move(*found),
               std::move(*priced)};
}

/// Where regions make again what ranks sum, the plan that takes the sums of the
/// forward pass, if that is cheaper and fits: all of them, or as many of the
/// last ones as fit, and as there is time to try. `hidup` is the paper's.
LogicalResult Planner::saveSums(cost::Plan &plan) {
  StepGraph planned = graph;
  applyPlan(planned, *extraction, plan);
  SmallVector<unsigned> summed = findSummed(planned);
  std::optional<cost::Plan> old = complete(plan);
  if (summed.empty() || options.search == kHidup || !old)
    return success();
  int64_t most = std::max(extraction->problem.memoryLimit, old->peak);
  double least = old->cost;
  std::optional<Saved> best;
  for (size_t low = 0, high = summed.size() + 1, count = summed.size();
       low + 1 < high && (count == summed.size() || !isOver());
       count = low + (high - low) / 2) {
    std::optional<Saved> saved =
        tryToSave(planned, ArrayRef(summed).take_back(count));
    bool fits = saved && saved->priced.peak <= most;
    (fits ? low : high) = count;
    if (!fits || saved->priced.cost >= least)
      continue;
    least = saved->priced.cost;
    best = std::move(saved);
  }
  if (best) {
    graph = std::move(best->graph);
    extraction = std::move(best->extraction);
    plan = std::move(best->plan);
  }
  return writeProblem(extraction->problem);
}

/// Takes the preset as it is: signatures alone decide, `shard` and `schedule`
/// do as always. Says what it costs, if somebody asks.
FailureOr<Decisions> Planner::takePreset() {
  StringRef preset = options.getPreset();
  auto signatures = planByPreset(graph, *extraction, preset);
  if (failed(signatures) || failed(saveSums(*signatures)))
    return failure();
  applyPlan(graph, *extraction, *signatures);
  tellIdle();
  std::vector<PlannedCopy> kept = listKept(*extraction, *signatures);
  if (!isPriced(options)) {
    Decisions decisions;
    decisions.pins = pins.str();
    decisions.copies = std::move(kept);
    return decisions;
  }
  std::string name = ("preset " + preset).str(), error;
  auto plan = pricePreset(extraction->problem, *signatures, error);
  if (!plan)
    return emitError() << name << " has no cost: " << error;
  if (graph.hasChoices() && plan->peak > extraction->problem.memoryLimit) {
    search::SearchResult chosen = chooseSources(*plan);
    noteResult(chosen);
    if (!chosen.plan)
      return emitError() << name << " has no plan: " << chosen.error;
    applyPlan(graph, *extraction, *chosen.plan);
    // With the stages of the search, which its peak is of.
    return report(*chosen.plan, name, "tandem");
  }
  auto decisions = report(*plan, name, "");
  if (succeeded(decisions))
    decisions->copies = std::move(kept);
  return decisions;
}

FailureOr<Decisions> Planner::run(std::optional<cost::Plan> chosen) {
  if (failed(extract()))
    return failure();
  if (!chosen &&
      failed(addStart(graph, *extraction, options, isOneOfMany, starts)))
    return failure();
  if (options.search.empty())
    return takePreset();
  FailureOr<cost::Plan> plan = chosen ? std::move(*chosen) : find();
  if (failed(plan) || failed(saveSums(*plan)))
    return failure();
  applyPlan(graph, *extraction, *plan);
  tellIdle();
  return report(*plan, "search " + options.search, options.search);
}

/// The plan of a file, costed, also where it does not fit, which `report` says;
/// `graph` has its signatures.
FailureOr<cost::Plan> Planner::price(const PlanFile &file) {
  const Decisions &old = file.decisions;
  // What was proven under pins is said under them.
  if (!old.pins.empty() && obeysPins(graph, old.pins))
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
  auto decisions = report(*plan, "plan " + file.path, file.decisions.search);
  if (succeeded(decisions) && decisions->search.empty())
    decisions->copies = file.decisions.copies;
  return decisions;
}

FailureOr<Decisions>
tandem::plan::planBySearch(StepGraph &graph, const PlanOptions &options,
                           std::optional<cost::Plan> chosen) {
  return Planner(graph, options, options.pins).run(std::move(chosen));
}

FailureOr<cost::Plan> tandem::plan::findPlan(StepGraph &graph,
                                             const PlanOptions &options,
                                             double timeLimit,
                                             bool &isInfeasible) {
  Planner planner(graph, options, options.pins);
  FailureOr<cost::Plan> plan = planner.findOneOfMany(timeLimit);
  isInfeasible = planner.isInfeasible;
  return plan;
}

FailureOr<Decisions> tandem::plan::costAgain(StepGraph &graph,
                                             const PlanOptions &options,
                                             const PlanFile &file) {
  return Planner(graph, options, "").costAgain(file);
}

FailureOr<std::string> tandem::plan::compareFiles(StepGraph &graph,
                                                  const PlanOptions &options,
                                                  const PlanFile &file,
                                                  StepGraph &otherGraph,
                                                  const PlanFile &other) {
  Planner first(graph, options, ""), second(otherGraph, options, "");
  FailureOr<cost::Plan> plan = first.price(file);
  if (failed(plan))
    return failure();
  FailureOr<cost::Plan> otherPlan = second.price(other);
  if (failed(otherPlan))
    return failure();
  std::string error;
  std::string text =
      explain::compare(first.getExtraction().problem, *plan,
                       second.getExtraction().problem, *otherPlan, error);
  if (error.empty())
    return text;
  return mlir::emitError(graph.getLoc()) << error;
}
