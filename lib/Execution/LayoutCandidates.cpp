//===- LayoutCandidates.cpp - which layouts are weighed -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LayoutCandidates.h"
#include "tandem/Support/Glob.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <numeric>
#include <set>

using namespace tandem;
using namespace tandem::pipeline;

/// Pipelines that become Programs, beside rules and presets.
static constexpr size_t kMostPipelines = 4;
/// Those with the least bounds that no memory holds, as the table says.
static constexpr size_t kMostTooLarge = 2;
/// Of a point, in orders that are searched.
static constexpr unsigned kMostSections = 2;
/// Of a step without a pipe axis, beside one.
static constexpr int64_t kStrands = 2;

LayoutCandidates::LayoutCandidates(const CompileOptions &options,
                                   const StepLayers &step,
                                   const cost::Cluster &cluster)
    : options(options), step(step), cluster(cluster),
      devices(cluster.getNumDevices()),
      problem(hasLayers() ? makeProblem() : LayoutProblem()) {}

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

//===----------------------------------------------------------------------===//
// Yardsticks
//===----------------------------------------------------------------------===//

Candidate LayoutCandidates::make(std::string name, std::string mesh) const {
  Candidate candidate{std::move(name), options};
  candidate.options.mesh = std::move(mesh);
  candidate.options.weighsPipelines = false;
  return candidate;
}

Candidate LayoutCandidates::makeOpen() const {
  Candidate candidate = make("no pipe axis", "auto");
  candidate.isYardstick = true;
  return candidate;
}

/// Of two strands without a pipe axis one computes while the other
/// communicates: so what passes gather hides, too.
LayoutCandidates::Candidates LayoutCandidates::makeStrands() const {
  if (options.micro > 1 || devices == 1 || step.rows < 1 ||
      step.rows % (kStrands * options.accumulate) != 0)
    return {};
  std::string name = "no pipe axis micro=" + std::to_string(kStrands);
  Candidate candidate = make(std::move(name), "auto");
  candidate.options.micro = kStrands;
  return {std::move(candidate)};
}

Candidate LayoutCandidates::makePreset(llvm::StringRef preset,
                                       std::string mesh) const {
  Candidate candidate = make(preset.str() + " " + mesh, mesh);
  candidate.options.search.clear();
  candidate.options.searchTimeLimit = 0;
  candidate.options.preset = preset.str();
  candidate.isYardstick = true;
  return candidate;
}

LayoutCandidates::Candidates LayoutCandidates::makePresets() const {
  std::string number = std::to_string(devices);
  Candidates all;
  for (llvm::StringRef preset : {kWhole, llvm::StringLiteral("zero"), kSplit,
                                 llvm::StringLiteral("expert-parallel")})
    all.push_back(makePreset(preset, "data=" + number));
  all.push_back(makePreset("tensor-parallel", "model=" + number));
  all.push_back(makePreset(kPipelinePreset, "pipe=" + number));
  if (options.accumulate == 1)
    all.back().options.accumulate =
        std::gcd(step.rows / options.micro, 4 * devices);
  return all;
}

/// Whether the estimate says that the devices hold a step of 1F1B.
bool LayoutCandidates::holds(const Candidate &candidate, int64_t pipe,
                             int64_t data, int64_t model) const {
  int64_t rows = problem.batch / (data * candidate.options.accumulate);
  Layout layout{unsigned(pipe), unsigned(data), unsigned(model),
                unsigned(rows)};
  std::string error;
  return hasLayers() && rows > 0 && verifyLayout(problem, layout, error) &&
         !priceLayout(problem, layout, {}, CutEffort::Start).cut.empty();
}

/// Tensors inside a node, as few points as hold the step, and data over the
/// rest.
LayoutCandidates::Candidates LayoutCandidates::makeRule() const {
  int64_t inNode = devices;
  for (const cost::NodeGroup &group : cluster.nodes)
    inNode = std::min(inNode, group.getNumDevices());
  Candidates all;
  bool isFound = false;
  for (int64_t pipe = 1; pipe * inNode <= devices; ++pipe) {
    if (devices % (pipe * inNode) != 0)
      continue;
    int64_t data = devices / pipe / inNode;
    std::string mesh = printMesh(pipe, data, inNode);
    Candidate &candidate = all.emplace_back(make("megatron " + mesh, mesh));
    if (pipe > 1 && options.accumulate == 1)
      candidate.options.accumulate =
          std::gcd(step.rows / data / options.micro, 4 * pipe);
    candidate.isYardstick = !isFound && holds(candidate, pipe, data, inNode);
    isFound |= candidate.isYardstick;
  }
  return all;
}

LayoutCandidates::Candidates
LayoutCandidates::makeAmp(const Deadline &deadline) const {
  if (!hasLayers())
    return {};
  LayoutProblem own = problem;
  own.accounting = CutAccounting::Amp;
  std::vector<LayoutResult> results = searchLayouts(own, deadline);
  auto best = llvm::find_if(results, [&](const LayoutResult &result) {
    return !result.cut.empty() && isOpen(result.layout);
  });
  if (best == results.end() || deadline.isOver())
    return {};
  const Layout &layout = best->layout;
  std::string mesh = printMesh(1, layout.data, layout.model);
  Candidate candidate =
      layout.pipe > 1 ? makePipeline(*best) : make(mesh, mesh);
  candidate.name = "amp " + candidate.name;
  candidate.isYardstick = true;
  return {std::move(candidate)};
}

//===----------------------------------------------------------------------===//
// The estimate
//===----------------------------------------------------------------------===//

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
LayoutProblem LayoutCandidates::makeProblem() const {
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

//===----------------------------------------------------------------------===//
// Pipelines
//===----------------------------------------------------------------------===//

Candidate LayoutCandidates::vary(const Candidate &of, int64_t microbatches,
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

/// The mesh, the microbatches and the schedule of a layout, without pins.
Candidate LayoutCandidates::makeOf(const LayoutResult &result) const {
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

Candidate LayoutCandidates::makePipeline(const LayoutResult &result) const {
  const Layout &layout = result.layout;
  std::vector<unsigned> order = getPointOrder(problem, layout);
  Candidate candidate = makeOf(result);
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

LayoutCandidates::Candidates
LayoutCandidates::makeShapes(llvm::ArrayRef<LayoutResult> results) const {
  using Placement = orders::Placement;
  std::set<std::tuple<std::string, unsigned, Placement>> seen;
  Candidates shapes;
  for (const LayoutResult &result : results) {
    const Layout &layout = result.layout;
    Placement placement = orders::findSchedule(layout.schedule)->placement;
    std::string mesh = printMesh(layout.pipe, layout.data, layout.model);
    if (layout.pipe > 1 && !result.cut.empty() &&
        layout.sectionsPerPoint <= kMostSections &&
        seen.emplace(mesh, layout.sectionsPerPoint, placement).second)
      shapes.push_back(makePipeline(result));
  }
  return shapes;
}

LayoutCandidates::Candidates
LayoutCandidates::makePipelines(const Deadline &deadline, bool runsForwardFirst,
                                Candidates &shapes) const {
  if (!hasLayers())
    return {};
  std::set<std::tuple<unsigned, unsigned, std::string>> seen;
  std::set<std::pair<unsigned, unsigned>> tooLarge;
  LayoutProblem own = problem;
  own.runsForwardFirst = runsForwardFirst;
  std::vector<LayoutResult> results = searchLayouts(own, deadline);
  shapes = makeShapes(results);
  Candidates all;
  for (const LayoutResult &result : results) {
    const Layout &layout = result.layout;
    if (layout.pipe == 1 || !isOpen(layout))
      continue;
    if (result.cut.empty()) {
      if (result.lacksMemory && tooLarge.size() < kMostTooLarge &&
          tooLarge.emplace(layout.pipe, layout.data).second) {
        all.push_back(makeOf(result));
        all.back().failure = result.why;
        all.back().excess = static_cast<int64_t>(result.excess);
      }
    } else if (seen.size() < kMostPipelines &&
               seen.emplace(layout.pipe, layout.data, layout.schedule).second) {
      all.push_back(makePipeline(result));
    }
  }
  return all;
}
