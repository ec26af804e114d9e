//===- AutoMesh.cpp - the mesh by search ----------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AutoMesh.h"
#include "ExplainPlan.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/FormatVariadic.h"
#include <chrono>

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

static constexpr unsigned kMaxSpaceAxes = 3;
static constexpr const char *kAxisNames[kMaxSpaceAxes][kMaxSpaceAxes] = {
    {"data"}, {"data", "model"}, {"data", "fsdp", "model"}};

/// Appends the ways to write `size` as `count` factors above one, behind those
/// in `factors`.
static void listFactors(int64_t size, unsigned count,
                        SmallVectorImpl<int64_t> &factors,
                        std::vector<SmallVector<int64_t>> &all) {
  if (count == 1) {
    all.emplace_back(factors.begin(), factors.end()).push_back(size);
    return;
  }
  for (int64_t factor = 2; factor * 2 <= size; ++factor) {
    if (size % factor)
      continue;
    factors.push_back(factor);
    listFactors(size / factor, count - 1, factors, all);
    factors.pop_back();
  }
}

/// All ways to write `devices` as a product of one to three sizes above one, in
/// every order: the last axis of a mesh runs over neighbours, so that each
/// order lays the axes over other links. Those of fewer axes come first.
static std::vector<std::string> listMeshes(int64_t devices) {
  std::vector<std::string> meshes;
  for (unsigned count = 1; count <= kMaxSpaceAxes; ++count) {
    std::vector<SmallVector<int64_t>> all;
    SmallVector<int64_t> factors;
    listFactors(devices, count, factors, all);
    for (ArrayRef<int64_t> sizes : all) {
      std::string text;
      for (auto [axis, size] : llvm::enumerate(sizes))
        text += llvm::formatv("{0}{1}={2}", axis ? "," : "",
                              kAxisNames[count - 1][axis], size);
      meshes.push_back(text);
    }
  }
  return meshes;
}

/// Of a mesh that lacks no memory.
static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

namespace {
/// One mesh, and what came of it.
struct Trial {
  size_t number;
  std::string mesh, failure;
  std::optional<cost::Plan> plan;
  /// Whether there was too little time for a plan.
  bool isCutShort = false;
  /// Bytes that its memory lacks, as far as they are known.
  int64_t excess = kNone;
};

class MeshSearch {
public:
  MeshSearch(const StepGraph &plain, const PlanOptions &options)
      : plain(plain), options(options) {}
  FailureOr<MeshChoice> run();

private:
  using Clock = std::chrono::steady_clock;
  std::optional<double> getSeconds(size_t numLeft) const;
  bool isEnded(ArrayRef<Trial> trials) const;
  void search(Trial &trial, double seconds);
  void insist(MutableArrayRef<Trial> trials);
  void report(ArrayRef<Trial> trials, StringRef cluster, int64_t devices);

  const StepGraph &plain;
  const PlanOptions &options;
  Clock::time_point begin = Clock::now();
};
} // namespace

/// An equal share of the time that is left; 0 is no limit, none is no time.
std::optional<double> MeshSearch::getSeconds(size_t numLeft) const {
  if (options.searchTimeLimit <= 0)
    return 0;
  std::chrono::duration<double> passed = Clock::now() - begin;
  double left = options.searchTimeLimit - passed.count();
  return left > 0 ? std::optional(left / numLeft) : std::nullopt;
}

static bool hasPlan(ArrayRef<Trial> trials) {
  return llvm::any_of(
      trials, [](const Trial &trial) { return trial.plan.has_value(); });
}

/// Whether nothing more is wanted, and there is a plan to take.
bool MeshSearch::isEnded(ArrayRef<Trial> trials) const {
  return options.exchange.endsSearch && options.exchange.endsSearch() &&
         hasPlan(trials);
}

void MeshSearch::search(Trial &trial, double seconds) {
  Clock::time_point start = Clock::now();
  // What is wrong with one mesh is a line of the table.
  ScopedDiagnosticHandler handler(
      plain.getLoc().getContext(), [&](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == DiagnosticSeverity::Error &&
            trial.failure.empty())
          trial.failure = diagnostic.str();
        return success();
      });
  FailureOr<MeshAttr> mesh =
      parseMesh(plain.getLoc(), trial.mesh, options.micro, "");
  if (failed(mesh))
    return;
  StepGraph graph = plain.onMesh(*mesh);
  bool isInfeasible = false;
  PlanResult &told = *options.exchange.result;
  told.excess = kNone;
  FailureOr<cost::Plan> plan = findPlan(graph, options, seconds, isInfeasible);
  if (succeeded(plan))
    trial.plan = std::move(*plan);
  trial.excess = told.excess;
  std::chrono::duration<double> taken = Clock::now() - start;
  trial.isCutShort = !trial.plan && !isInfeasible && taken.count() >= seconds;
}

/// Some plan is worth more than the limit, which is of wall time: on a busy
/// machine an equal share may be too short for any mesh. So shares double until
/// one has a plan, of meshes that had too little time. If memory is the reason
/// and values may be made again, the step is planned again with that offer
/// instead.
void MeshSearch::insist(MutableArrayRef<Trial> trials) {
  constexpr double kMostLimits = 5;
  double limit = options.searchTimeLimit;
  double seconds = limit / static_cast<double>(trials.size());
  auto isOver = [&] {
    std::chrono::duration<double> passed = Clock::now() - begin;
    return hasPlan(trials) || passed.count() > kMostLimits * limit ||
           llvm::none_of(trials, [](const Trial &t) { return t.isCutShort; }) ||
           (options.exchange.mayOffer &&
            options.exchange.result->lacksMemory) ||
           (options.exchange.endsSearch && options.exchange.endsSearch());
  };
  while (limit > 0 && !isOver()) {
    seconds *= 2;
    for (Trial &trial : trials) {
      if (isOver())
        return;
      if (!trial.isCutShort)
        continue;
      trial.failure.clear();
      search(trial, seconds);
    }
  }
}

/// Of equal costs, but for rounding, the mesh that was tried first, which has
/// fewer axes. Without plans the one whose memory lacks least.
static bool isBetter(const Trial &first, const Trial &second) {
  auto getKey = [](const Trial &trial) {
    auto seconds = static_cast<float>(trial.plan ? trial.plan->cost : 0);
    return std::make_tuple(!trial.plan, seconds, trial.excess, trial.number);
  };
  return getKey(first) < getKey(second);
}

/// The table, cheapest first.
void MeshSearch::report(ArrayRef<Trial> trials, StringRef cluster,
                        int64_t devices) {
  emitRemark(plain.getLoc())
      << "mesh auto: " << devices << " devices of " << cluster << ", "
      << trials.size() << " meshes, cheapest first";
  size_t width = 0;
  for (const Trial &trial : trials)
    width = std::max(width, trial.mesh.size());
  for (const Trial &trial : trials) {
    std::string mesh = trial.mesh;
    mesh.append(width - mesh.size(), ' ');
    auto line = emitRemark(plain.getLoc());
    line << "  " << mesh << "  ";
    if (!trial.plan) {
      line << trial.failure;
      continue;
    }
    const cost::Plan &plan = *trial.plan;
    line << "cost " << cost::printSeconds(plan.cost) << ", peak " << plan.peak
         << " B" << printGap(plan)
         << (plan.isOptimal || plan.lowerBound <= 0 ? "" : " of this mesh");
  }
}

FailureOr<MeshChoice> MeshSearch::run() {
  std::string error;
  if (options.cluster.empty())
    return emitError(plain.getLoc())
           << "mesh auto divides the devices of a cluster, but there is none: "
              "expected a cluster file";
  if (options.search == "hidup")
    return emitError(plain.getLoc())
           << "mesh auto with the search 'hidup', which knows meshes of one "
              "axis: expected tandem, ilp, exhaustive or presets";
  auto cluster = cost::readCluster(options.cluster, error);
  if (!cluster)
    return emitError(plain.getLoc()) << error;
  int64_t devices = cluster->getNumDevices();
  std::vector<Trial> trials;
  for (std::string &mesh : listMeshes(devices))
    trials.push_back({trials.size(), std::move(mesh), "", std::nullopt});
  for (auto [index, trial] : llvm::enumerate(trials)) {
    auto seconds = getSeconds(trials.size() - index);
    if (isEnded(trials))
      trial.failure = "not tried, as the search was interrupted";
    else if (seconds)
      search(trial, *seconds);
    else
      trial.failure = "not tried within the time limit";
    trial.isCutShort |= !seconds;
  }
  insist(trials);
  llvm::sort(trials, isBetter);
  const Trial &first = trials.front();
  options.exchange.result->excess = first.excess;
  if (!first.plan)
    return emitError(plain.getLoc())
           << "mesh auto: none of " << trials.size() << " meshes of " << devices
           << " devices has a plan; "
           << (first.excess < kNone ? "the nearest is " : "") << first.mesh
           << ": " << first.failure;
  report(trials, cluster->name, devices);
  return MeshChoice{trials.front().mesh, std::move(*trials.front().plan)};
}

FailureOr<MeshChoice> tandem::plan::chooseMesh(const StepGraph &step,
                                               const PlanOptions &options) {
  return MeshSearch(step, options).run();
}
