//===- ChooseLayout.cpp - pipelines among the layouts of a mesh -----------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChooseLayout.h"
#include "Candidate.h"
#include "tandem/Search/Pipeline/Layouts.h"
#include "tandem/Search/Watch.h"
#include "tandem/Support/ByteSize.h"
#include "tandem/Support/Glob.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

using namespace tandem;
using namespace tandem::pipeline;

/// Pipelines that become Programs, beside rules and presets.
static constexpr size_t kMostPipelines = 4;
/// Those with the least bounds that no memory holds, as the table says.
static constexpr size_t kMostTooLarge = 2;
/// Of pipelines that became Programs, so many have their orders searched.
static constexpr size_t kMostSearched = 2;
/// Of a point, in orders that are searched.
static constexpr unsigned kMostSections = 2;
/// The share of the time that is left for the meshes without a pipe axis.
static constexpr double kFirstShare = 1.0 / 3;
/// Of a step without a pipe axis, beside one.
static constexpr int64_t kStrands = 2;
/// Parameters are whole in the first one, and split in the second one.
static constexpr llvm::StringLiteral kWhole = "data-parallel", kSplit = "zero2";
/// Mixtures of them are tried unless something is so many times as fast.
static constexpr double kMostBehind = 1.2;

bool tandem::weighsLayouts(const CompileOptions &options) {
  return options.weighsPipelines && options.mesh == "auto" &&
         options.search == "tandem" && !options.cluster.empty() &&
         options.sections.empty() && options.order.empty() &&
         options.start.empty() && options.fromStage.empty() &&
         llvm::none_of(options.pins, [](const std::string &pin) {
           return llvm::StringRef(pin).contains("=at(");
         });
}

namespace {
class Chooser {
public:
  Chooser(std::string_view module, std::string_view name,
          const CompileOptions &options, const StepLayers &step)
      : module(module), name(name), options(options), step(step) {}
  std::optional<LayoutChoice> run(std::string &error);

private:
  Candidate make(std::string name, std::string mesh) const;
  void addPresets();
  void addStrands();
  void addRule();
  void addPipelines();
  void addAmp(LayoutProblem problem, const Deadline &share);
  bool isOpen(const Layout &layout) const {
    return options.accumulate == 1 ||
           options.accumulate == countMicrobatches(layout);
  }
  LayoutProblem makeProblem() const;
  int64_t countMicrobatches(const Layout &layout) const {
    return step.rows / options.micro / layout.data / layout.rows;
  }
  Candidate makeOf(const LayoutProblem &problem,
                   const LayoutResult &result) const;
  Candidate makePipeline(const LayoutProblem &problem,
                         const LayoutResult &result) const;
  void addPipeline(const LayoutProblem &problem, const LayoutResult &result) {
    candidates.push_back(makePipeline(problem, result));
  }
  void addShapes(const LayoutProblem &problem,
                 llvm::ArrayRef<LayoutResult> results);
  Candidate vary(const Candidate &of, int64_t microbatches,
                 std::string order) const;
  const Candidate *findBest() const;
  void varyMicrobatches();
  double getPriced(llvm::StringRef preset) const;
  double weighWhole(size_t count);
  void varyWhole();
  void addSearched();
  std::string findExcess(const Candidate &candidate) const;
  double getSeconds(const Candidate &candidate) const;
  void weigh(size_t number);
  void weighFrom(size_t number);
  CompileOptions getOptions(const Candidate &candidate) const;
  void tryOne(Candidate &candidate);
  bool isInterrupted() const {
    return options.takesInterrupts && search::InterruptGuard::isInterrupted();
  }
  bool isCancelled() const {
    return options.isCancelled && options.isCancelled();
  }
  /// Why nothing more is weighed, if there is a Program; empty: it goes on.
  std::string getEnd() const {
    if (isInterrupted())
      return "as the search was interrupted";
    return deadline.isOver() ? "within the time limit" : "";
  }

  std::string_view module, name;
  const CompileOptions &options;
  const StepLayers &step;
  cost::Cluster cluster;
  int64_t devices = 1;
  std::vector<Candidate> candidates, shapes;
  Deadline deadline{options.searchTimeLimit};
  bool hasProgram = false;
};
} // namespace

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

/// Neighbours share a layer, those behind them a batch.
static std::string printMesh(int64_t pipe, int64_t data, int64_t model) {
  std::string mesh;
  for (auto [name, size] : {std::pair("pipe", pipe), std::pair("data", data),
                            std::pair("model", model)})
    if (size > 1)
      mesh += (mesh.empty() ? "" : ",") + std::string(name) + "=" +
              std::to_string(size);
  return mesh.empty() ? "data=1" : mesh;
}

Candidate Chooser::make(std::string name, std::string mesh) const {
  Candidate candidate{std::move(name), options};
  candidate.options.mesh = std::move(mesh);
  candidate.options.weighsPipelines = false;
  return candidate;
}

/// Of two strands without a pipe axis one computes while the other
/// communicates: so what passes gather hides, too.
void Chooser::addStrands() {
  if (options.micro > 1 || devices == 1 || step.rows < 1 ||
      step.rows % (kStrands * options.accumulate) != 0)
    return;
  std::string name = "no pipe axis micro=" + std::to_string(kStrands);
  candidates.push_back(make(std::move(name), "auto"));
  candidates.back().options.micro = kStrands;
}

void Chooser::addPresets() {
  std::string data = "data=" + std::to_string(devices);
  auto add = [&](std::string preset, const std::string &mesh) {
    Candidate candidate = make(preset + " " + mesh, mesh);
    candidate.options.search.clear();
    candidate.options.searchTimeLimit = 0;
    candidate.options.preset = std::move(preset);
    candidates.push_back(std::move(candidate));
  };
  for (llvm::StringRef preset : {kWhole, llvm::StringLiteral("zero"), kSplit,
                                 llvm::StringLiteral("expert-parallel")})
    add(preset.str(), data);
  add("tensor-parallel", "model=" + std::to_string(devices));
  add("pipeline", "pipe=" + std::to_string(devices));
  if (options.accumulate == 1)
    candidates.back().options.accumulate =
        std::gcd(step.rows / options.micro, 4 * devices);
}

/// Megatron's: tensors inside a node, as few points as hold the step, and data
/// over the rest.
void Chooser::addRule() {
  int64_t inNode = devices;
  for (const cost::NodeGroup &group : cluster.nodes) {
    int64_t own = 0;
    for (auto [kind, count] : group.devices)
      own += count;
    inNode = std::min(inNode, own);
  }
  for (int64_t pipe = 1; pipe * inNode <= devices; ++pipe) {
    if (devices % (pipe * inNode) != 0)
      continue;
    std::string mesh = printMesh(pipe, devices / pipe / inNode, inNode);
    Candidate candidate = make("megatron " + mesh, mesh);
    if (pipe > 1 && options.accumulate == 1)
      candidate.options.accumulate = std::gcd(
          step.rows * pipe * inNode / devices / options.micro, 4 * pipe);
    candidates.push_back(std::move(candidate));
  }
}

/// What passes of a microbatch take, however many rows it has: two kernels for
/// each product, and in W what reads, adds to and writes the sums of gradients,
/// of which each of the devices that share a layer has a part.
static LayerCost getFixed(const ChainLayer &layer, const cost::DeviceKind &kind,
                          int64_t model) {
  double launches = 2 * static_cast<double>(layer.products) * kind.overhead;
  double bytes = static_cast<double>(layer.bytes) / static_cast<double>(model);
  double sums = 3 * bytes / kind.memoryBandwidth;
  return {launches, launches, launches + sums};
}

/// Seconds from FLOPs at the peak of each kind; of the backward pass twice
/// those of the forward pass.
LayoutProblem Chooser::makeProblem() const {
  LayoutProblem problem;
  problem.cluster = cluster;
  problem.batch = static_cast<unsigned>(step.rows / options.micro);
  problem.states = step.states;
  problem.nodeOrders = NodeOrders::OfPoints;
  if (options.memory >= 0)
    for (cost::DeviceKind &kind : problem.cluster.kinds) {
      kind.memorySize = options.memory;
      kind.memoryReserved = 0;
    }
  auto rows = static_cast<double>(problem.batch);
  for (const ChainLayer &layer : step.layers) {
    ModelLayer &own = problem.layers.emplace_back();
    own.weights = static_cast<double>(layer.bytes);
    own.activations = static_cast<double>(layer.saved) / rows;
    own.bytes = static_cast<double>(layer.leaving) / rows;
    own.reduced = own.bytes;
    for (const cost::DeviceKind &kind : cluster.kinds) {
      double pass = layer.flops / rows / cost::getPeakRate(kind, step.type);
      own.costs[{kind.name, 1}] = {pass, pass, pass};
      for (int64_t model = 1; model <= devices; ++model)
        if (devices % model == 0)
          own.fixed[{kind.name, model}] = getFixed(layer, kind, model);
    }
  }
  return problem;
}

/// The mesh, the microbatches and the schedule of a layout, without pins.
Candidate Chooser::makeOf(const LayoutProblem &problem,
                          const LayoutResult &result) const {
  const Layout &layout = result.layout;
  std::string mesh = printMesh(layout.pipe, layout.data, layout.model);
  std::string others;
  bool isVee = orders::findSchedule(layout.schedule)->placement ==
               orders::Placement::Vee;
  if (layout.sectionsPerPoint > 1)
    others +=
        llvm::formatv(" sections={0}{1}", layout.sectionsPerPoint * layout.pipe,
                      isVee ? " vee" : "");
  std::vector<unsigned> order = getPointOrder(problem, layout);
  if (!llvm::is_sorted(order)) {
    std::vector<std::string> points;
    for (unsigned point : order)
      points.push_back(std::to_string(point));
    others += " points=" + llvm::join(points, ",");
  }
  Candidate candidate = make("", mesh);
  candidate.mesh = mesh;
  candidate.others = others;
  candidate.data = layout.data;
  return vary(candidate, countMicrobatches(layout), layout.schedule);
}

Candidate Chooser::makePipeline(const LayoutProblem &problem,
                                const LayoutResult &result) const {
  const Layout &layout = result.layout;
  std::vector<unsigned> order = getPointOrder(problem, layout);
  Candidate candidate = makeOf(problem, result);
  const orders::Schedule *schedule = orders::findSchedule(layout.schedule);
  unsigned begin = 0;
  for (auto [section, count] : llvm::enumerate(result.cut)) {
    std::vector<std::string> globs;
    for (unsigned i = begin; i < begin + count; ++i)
      llvm::append_range(globs,
                         llvm::map_range(step.layers[i].parameters, makeGlob));
    begin += count;
    unsigned point = order[schedule->getPoint(section, layout.pipe)];
    candidate.options.pins.push_back(
        llvm::formatv("{0}:pipe=at({1})", llvm::join(globs, ","), point));
  }
  return candidate;
}

/// Of each mesh, the best cut of each way to lay sections on points.
void Chooser::addShapes(const LayoutProblem &problem,
                        llvm::ArrayRef<LayoutResult> results) {
  using Placement = orders::Placement;
  std::set<std::tuple<std::string, unsigned, Placement>> seen;
  for (const LayoutResult &result : results) {
    const Layout &layout = result.layout;
    Placement placement = orders::findSchedule(layout.schedule)->placement;
    std::string mesh = printMesh(layout.pipe, layout.data, layout.model);
    if (layout.pipe > 1 && !result.cut.empty() &&
        layout.sectionsPerPoint <= kMostSections &&
        seen.emplace(mesh, layout.sectionsPerPoint, placement).second)
      shapes.push_back(makePipeline(problem, result));
  }
}

/// Of each mesh and schedule the best one, as far as bounds let it be cut.
void Chooser::addPipelines() {
  if (step.layers.size() < 2 || step.rows < 1)
    return;
  std::set<std::tuple<unsigned, unsigned, std::string>> seen;
  LayoutProblem problem = makeProblem();
  Deadline share(options.searchTimeLimit * kFirstShare,
                 [this] { return isInterrupted() || isCancelled(); });
  std::set<std::pair<unsigned, unsigned>> tooLarge;
  std::vector<LayoutResult> results = searchLayouts(problem, share);
  addShapes(problem, results);
  for (const LayoutResult &result : results) {
    const Layout &layout = result.layout;
    if (layout.pipe == 1 || !isOpen(layout))
      continue;
    if (result.cut.empty()) {
      if (result.lacksMemory && tooLarge.size() < kMostTooLarge &&
          tooLarge.emplace(layout.pipe, layout.data).second) {
        candidates.push_back(makeOf(problem, result));
        candidates.back().failure = result.why;
      }
    } else if (seen.size() < kMostPipelines &&
               seen.emplace(layout.pipe, layout.data, layout.schedule).second) {
      addPipeline(problem, result);
    }
  }
  addAmp(std::move(problem), share);
}

/// AMP's best layout: that of its equations 2 and 4, by 1F1B.
void Chooser::addAmp(LayoutProblem problem, const Deadline &share) {
  if (share.isOver())
    return;
  problem.accounting = CutAccounting::Amp;
  std::vector<LayoutResult> results = searchLayouts(problem, share);
  auto best = llvm::find_if(results, [&](const LayoutResult &result) {
    return !result.cut.empty() && isOpen(result.layout);
  });
  if (best == results.end() || share.isOver())
    return;
  const Layout &layout = best->layout;
  if (layout.pipe > 1)
    addPipeline(problem, *best);
  else
    candidates.push_back(make(printMesh(1, layout.data, layout.model),
                              printMesh(1, layout.data, layout.model)));
  candidates.back().name = "amp " + candidates.back().name;
}

/// The same pipeline with other microbatches and another order.
Candidate Chooser::vary(const Candidate &of, int64_t microbatches,
                        std::string order) const {
  Candidate other{llvm::formatv("{0} accumulate={1}{2} {3}", of.mesh,
                                microbatches, of.others, order),
                  of.options};
  other.mesh = of.mesh;
  other.others = of.others;
  other.data = of.data;
  other.options.accumulate = microbatches;
  other.options.order = std::move(order);
  return other;
}

/// Of the pipelines whose layout was searched; null if none has a Program.
const Candidate *Chooser::findBest() const {
  const Candidate *best = nullptr;
  for (const Candidate &candidate : candidates)
    if (!candidate.mesh.empty() && candidate.failure.empty() &&
        (!best || isBetter(candidate, *best)))
      best = &candidate;
  return best;
}

/// The estimate of layers knows no latency of actions. So the fastest pipeline
/// is tried with half and twice the microbatches, until neither is faster.
void Chooser::varyMicrobatches() {
  for (std::string last; options.accumulate == 1;) {
    const Candidate *best = findBest();
    if (!best || best->name == std::exchange(last, best->name))
      return;
    const Candidate from = *best;
    int64_t now = from.options.accumulate;
    for (int64_t microbatches : {now / 2, 2 * now}) {
      if (microbatches < 1 ||
          step.rows / options.micro / from.data % microbatches != 0)
        continue;
      Candidate other = vary(from, microbatches, from.options.order);
      bool isKnown = llvm::any_of(candidates, [&](const Candidate &each) {
        return each.name == other.name;
      });
      if (isKnown)
        continue;
      candidates.push_back(std::move(other));
      weigh(candidates.size() - 1);
    }
  }
}

/// The step of a preset on all devices; infinity if it has no Program.
double Chooser::getPriced(llvm::StringRef preset) const {
  for (const Candidate &candidate : candidates)
    if (candidate.options.preset == preset && candidate.options.pins.empty() &&
        candidate.failure.empty() && candidate.isPriced)
      return candidate.seconds;
  return std::numeric_limits<double>::infinity();
}

/// The step with so many of the last layers whole, and the others split.
double Chooser::weighWhole(size_t count) {
  Candidate candidate =
      make(llvm::formatv("{0} data={1}, last {2} of {3} layers whole", kSplit,
                         devices, count, step.layers.size()),
           "data=" + std::to_string(devices));
  candidate.options.search.clear();
  candidate.options.searchTimeLimit = 0;
  candidate.options.preset = kSplit;
  for (const ChainLayer &layer : llvm::ArrayRef(step.layers).take_back(count))
    for (const std::string &parameter : layer.parameters)
      candidate.options.pins.push_back(makeGlob(parameter) + ":data=full");
  candidates.push_back(std::move(candidate));
  weigh(candidates.size() - 1);
  const Candidate &weighed = candidates.back();
  return weighed.failure.empty() ? weighed.seconds
                                 : std::numeric_limits<double>::infinity();
}

/// What is split is gathered beside the forward pass, and its gradients take
/// half as long. Where the forward pass is too short for all, the last layers
/// stay whole, whose sums have the whole backward pass. Of their number the
/// middles beside the best one are tried, until none is faster.
void Chooser::varyWhole() {
  std::map<size_t, double> steps{{0, getPriced(kSplit)},
                                 {step.layers.size(), getPriced(kWhole)}};
  double fastest = std::numeric_limits<double>::infinity();
  for (const Candidate &candidate : candidates)
    if (candidate.failure.empty() && candidate.isPriced)
      fastest = std::min(fastest, candidate.seconds);
  if (!options.pins.empty() || !(steps.at(0) <= kMostBehind * fastest))
    return;
  for (size_t last = step.layers.size() + 1;;) {
    auto best = llvm::min_element(steps, llvm::less_second());
    size_t count = best->first;
    if (count == std::exchange(last, count))
      return;
    std::vector<size_t> middles;
    if (best != steps.begin())
      middles.push_back((std::prev(best)->first + count) / 2);
    if (auto next = std::next(best); next != steps.end())
      middles.push_back((next->first + count) / 2);
    for (size_t middle : middles)
      if (!steps.contains(middle))
        steps[middle] = weighWhole(middle);
  }
}

/// The fastest pipelines so far with an order of their own. And of the mesh of
/// the fastest one each way to lay sections on points, with its microbatches
/// and half of them: orders with a name may be far from what it can do.
void Chooser::addSearched() {
  std::vector<Candidate> best;
  for (const Candidate &candidate : candidates)
    if (!candidate.mesh.empty() && candidate.failure.empty())
      best.push_back(candidate);
  llvm::sort(best, isBetter);
  if (best.empty())
    return;
  std::set<std::string> seen;
  auto add = [&](const Candidate &of, int64_t microbatches) {
    Candidate other = vary(of, microbatches, "search");
    if (seen.insert(other.name).second)
      candidates.push_back(std::move(other));
  };
  for (const Candidate &candidate :
       llvm::ArrayRef(best).take_front(kMostSearched))
    add(candidate, candidate.options.accumulate);
  int64_t now = best.front().options.accumulate;
  for (const Candidate &shape : shapes)
    if (shape.mesh == best.front().mesh) {
      add(shape, now);
      if (options.accumulate == 1 && now % 2 == 0)
        add(shape, now / 2);
    }
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// Of the search of a plan; 0 is no limit.
double Chooser::getSeconds(const Candidate &candidate) const {
  const CompileOptions &own = candidate.options;
  bool isFixed = own.search.empty() && own.order != "search";
  if (options.searchTimeLimit <= 0 || isFixed)
    return 0;
  double left = options.searchTimeLimit - deadline.getPassed();
  if (left <= 0)
    return options.searchTimeLimit * kFirstShare;
  auto numLeft = static_cast<double>(candidates.size() - candidate.number);
  return candidate.isOpen() ? left * kFirstShare : left / numLeft;
}

/// Why a preset is of no use, as far as batch and parameters say: so no Program
/// is made of it. Empty: nothing is known.
std::string Chooser::findExcess(const Candidate &candidate) const {
  const std::string &preset = candidate.options.preset;
  double bytes = 0;
  int64_t number = 0, most = 0;
  for (const ChainLayer &layer : step.layers) {
    bytes += static_cast<double>(layer.bytes);
    number += static_cast<int64_t>(layer.parameters.size());
  }
  if (preset == kPipelinePreset && number < devices)
    return llvm::formatv("{0} parameters are too few for {1} points", number,
                         devices);
  bool splitsBatch =
      llvm::StringRef(candidate.options.mesh).starts_with("data=");
  if (!preset.empty() && splitsBatch && step.rows > 0 && step.rows < devices)
    return llvm::formatv("{0} rows of the batch are too few for {1} devices",
                         step.rows, devices);
  for (const cost::DeviceKind &kind : cluster.kinds)
    most = std::max(most, kind.memorySize - kind.memoryReserved);
  most = options.memory < 0 ? most : options.memory;
  // Gradients may go as soon as they are there, and of parameters that are
  // split only those are kept that both passes read.
  double whole = preset == kWhole ? step.states - 1 : 0;
  auto held = static_cast<int64_t>(whole * bytes);
  if (held <= most)
    return "";
  return "holds at least " + printByteSize(held) +
         " of parameters and states on each rank, more than the limit of " +
         printByteSize(most);
}

/// The commands are those of the device, without kernels.
CompileOptions Chooser::getOptions(const Candidate &candidate) const {
  CompileOptions own = candidate.options;
  if (double seconds = getSeconds(candidate); seconds > 0)
    own.searchTimeLimit = seconds;
  own.usesCache = own.timeline = own.explain = false;
  own.triesSizes = false; // of each layout
  if (own.mesh.find("pipe=") == std::string::npos)
    own.sumPiece = -1; // of a pipeline
  own.stopAfter.clear();
  own.printAfter.clear();
  own.problemOut.clear();
  if (own.device == "cuda" && own.architecture.empty())
    own.architecture = "sm_80";
  own.device = "sim";
  // What is compiled for a search that is over would never be looked at.
  own.isCancelled = [this] {
    return isCancelled() || (hasProgram && !getEnd().empty());
  };
  // A Program would say what the one plan takes that there was time for. That
  // it fits, and that points have room, only a Program says.
  own.isPlanEnough = [this, &candidate] {
    return options.memory < 0 && candidate.isOpen() && !hasProgram &&
           !getEnd().empty();
  };
  return own;
}

void Chooser::tryOne(Candidate &candidate) {
  CompiledProgram result;
  if (!compile(module, name, getOptions(candidate), result,
               candidate.failure)) {
    if (std::string end = getEnd(); hasProgram && !end.empty())
      candidate.failure = "not compiled " + end;
    return;
  }
  candidate.isPriced = !result.bytes.empty();
  if (candidate.isPriced)
    candidate.failure = measure(candidate, result.bytes, options.cluster);
  candidate.plan = std::move(result.plan);
  candidate.remarks = std::move(result.remarks);
}

void Chooser::weigh(size_t number) {
  Candidate &candidate = candidates[number];
  candidate.number = number;
  if (options.progress)
    options.progress("layouts", number, candidates.size());
  if (!candidate.failure.empty())
    return; // no memory holds it
  candidate.failure = findExcess(candidate);
  std::string end = getEnd();
  if (isCancelled() || (hasProgram && !end.empty()))
    candidate.failure = "not tried " + end;
  else if (candidate.failure.empty())
    tryOne(candidate);
  // A preset alone may be far from the best.
  hasProgram |= candidate.failure.empty() && !candidate.options.search.empty();
}

void Chooser::weighFrom(size_t number) {
  while (number < candidates.size())
    weigh(number++);
}

std::optional<LayoutChoice> Chooser::run(std::string &error) {
  auto read = cost::readCluster(options.cluster, error);
  if (!read)
    return std::nullopt;
  cluster = std::move(*read);
  devices = cluster.getNumDevices();
  std::optional<search::InterruptGuard> guard;
  if (options.takesInterrupts)
    guard.emplace();
  candidates.push_back(make("no pipe axis", "auto"));
  // Those that need no search come before all that takes longer.
  addPresets();
  weighFrom(0);
  varyWhole();
  size_t number = candidates.size();
  addStrands();
  addPipelines();
  addRule();
  weighFrom(number);
  varyMicrobatches();
  number = candidates.size();
  addSearched();
  weighFrom(number);
  llvm::sort(candidates, isBetter);
  if (!candidates.front().failure.empty()) {
    error = "mesh auto: none of " + std::to_string(candidates.size()) +
            " layouts of " + std::to_string(devices) +
            " devices has a Program that fits; " + candidates.front().name +
            ": " + candidates.front().failure;
    return std::nullopt;
  }
  Candidate &first = candidates.front();
  return LayoutChoice{first.options, first.plan, first.remarks,
                      printTable(candidates, devices, cluster.name, getEnd())};
}

std::optional<LayoutChoice> tandem::chooseLayout(std::string_view module,
                                                 std::string_view name,
                                                 const CompileOptions &options,
                                                 const StepLayers &step,
                                                 std::string &error) {
  return Chooser(module, name, options, step).run(error);
}
