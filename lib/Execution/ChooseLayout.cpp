//===- ChooseLayout.cpp - pipelines among the layouts of a mesh -----------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChooseLayout.h"
#include "LayoutCandidates.h"
#include "tandem/Search/Watch.h"
#include "tandem/Support/ByteSize.h"
#include "tandem/Support/Glob.h"
#include "tandem/Transforms/Accumulate/Accumulate.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <ctime>
#include <functional>
#include <limits>
#include <map>
#include <set>

using namespace tandem;
using namespace tandem::pipeline;

/// Of pipelines that became Programs, so many have their orders searched.
static constexpr size_t kMostSearched = 2;
/// The share of the time that is left for the meshes without a pipe axis, for
/// AMP's search, and for the estimates of pipelines.
static constexpr double kFirstShare = 1.0 / 3;
/// Yardsticks have as many times the limit, and so many seconds more at most.
static constexpr double kMostLimits = 5, kMostMore = 10;
/// A mesh that is left open ends without a plan after so many times its share
/// of the limit. Without a limit it ends after so many times what all Programs
/// took, and another layout after so many times what one took, or some seconds.
/// Of CPU time: a busy machine takes as much of it.
static constexpr double kMostShares = 2, kMostPrograms = 2, kMostLongest = 4,
                        kLeastSeconds = 5;
/// Mixtures of presets are tried unless something is so many times as fast.
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

/// Of this process.
static double getCpuSeconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

namespace {
/// Over after some CPU seconds. That clock is slow: it is looked at every 10
/// ms.
class CpuDeadline {
public:
  explicit CpuDeadline(double seconds) : latest(getCpuSeconds() + seconds) {}
  bool isOver() {
    if (latest < std::numeric_limits<double>::infinity() && pause.isOver()) {
      pause = Deadline(0.01);
      isLate = getCpuSeconds() > latest;
    }
    return isLate;
  }

private:
  double latest;
  bool isLate = false;
  Deadline pause{0.01};
};

class Chooser {
public:
  Chooser(std::string_view module, std::string_view name,
          const CompileOptions &options, const StepLayers &step)
      : module(module), name(name), options(options), step(step) {}
  std::optional<LayoutChoice> run(std::string &error);

private:
  const Candidate *findBest() const;
  void varyMicrobatches();
  double getPriced(llvm::StringRef preset) const;
  double weighWhole(size_t count);
  void varyWhole();
  bool joinsBatch() const;
  LayoutCandidates::Candidates makeSearched() const;
  std::string findExcess(const Candidate &candidate) const;
  double getSeconds(const Candidate &candidate) const;
  void weigh(Candidate candidate);
  void weigh(LayoutCandidates::Candidates all);
  void weighAll();
  double getShare(const Candidate &candidate) const;
  CompileOptions getOptions(const Candidate &candidate);
  void tryOne(Candidate &candidate);
  bool isInterrupted() const {
    return options.takesInterrupts && search::InterruptGuard::isInterrupted();
  }
  bool isCancelled() const {
    return options.isCancelled && options.isCancelled();
  }
  /// Why a candidate that takes so many seconds is not weighed, if there is a
  /// Program; empty: it is.
  std::string getEnd(const Candidate &candidate, double seconds = 0) const {
    if (isInterrupted())
      return "as the search was interrupted";
    const Deadline &own = candidate.isYardstick ? last : deadline;
    return own.isOver(seconds) ? "within the time limit" : "";
  }

  /// With a limit, what has a plan gets a Program.
  bool isLate() {
    return !(isPlanned && options.searchTimeLimit > 0) && share.isOver();
  }

  std::string_view module, name;
  const CompileOptions &options;
  const StepLayers &step;
  cost::Cluster cluster;
  std::optional<LayoutCandidates> maker;
  LayoutCandidates::Candidates candidates, shapes;
  /// How many are known by now.
  size_t numKnown = 0;
  Deadline deadline{options.searchTimeLimit},
      last{std::min(kMostLimits * options.searchTimeLimit,
                    options.searchTimeLimit + kMostMore),
           [this] { return isInterrupted() || isCancelled(); }};
  bool hasProgram = false;
  /// CPU seconds of those with a Program: of all, and the most of one. And the
  /// least that one took behind its plan, of wall time as the limit.
  double programs = 0, longest = 0,
         shortest = std::numeric_limits<double>::infinity();
  /// Of the candidate at hand: whether it has a plan, and when it ends without.
  bool isPlanned = false;
  Deadline sincePlan;
  CpuDeadline share{0};
  /// Whether one ended so. Then it is tried until it has a plan, if nothing
  /// else has a Program.
  bool wasLate = false, insists = false;
};
} // namespace

//===----------------------------------------------------------------------===//
// Variants
//===----------------------------------------------------------------------===//

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
      Candidate other = maker->vary(from, microbatches, from.options.order);
      bool isKnown = llvm::any_of(candidates, [&](const Candidate &each) {
        return each.name == other.name;
      });
      if (!isKnown)
        weigh(std::move(other));
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
  std::string mesh = "data=" + std::to_string(cluster.getNumDevices());
  Candidate candidate = maker->makePreset(kSplit, mesh);
  candidate.name += llvm::formatv(", last {0} of {1} layers whole", count,
                                  step.layers.size());
  candidate.isYardstick = false;
  for (const ChainLayer &layer : llvm::ArrayRef(step.layers).take_back(count))
    for (const std::string &parameter : layer.parameters)
      candidate.options.pins.push_back(makeGlob(parameter) + ":data=full");
  weigh(std::move(candidate));
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

/// Whether pipelines so far say that no order can run the step but one whose
/// forward passes come first.
bool Chooser::joinsBatch() const {
  return llvm::any_of(candidates, [](const Candidate &each) {
    return llvm::StringRef(each.failure).contains(kJoinsBatch);
  });
}

/// The fastest pipelines so far with an order of their own. And of the mesh of
/// the fastest one each way to lay sections on points, with its microbatches
/// and half of them: orders with a name may be far from what it can do.
LayoutCandidates::Candidates Chooser::makeSearched() const {
  std::vector<Candidate> best;
  for (const Candidate &candidate : candidates)
    if (!candidate.mesh.empty() && candidate.failure.empty())
      best.push_back(candidate);
  llvm::sort(best, isBetter);
  if (best.empty() || joinsBatch())
    return {};
  std::set<std::string> seen;
  LayoutCandidates::Candidates all;
  auto add = [&](const Candidate &of, int64_t microbatches) {
    Candidate other = maker->vary(of, microbatches, "search");
    if (seen.insert(other.name).second)
      all.push_back(std::move(other));
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
  return all;
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
  bool leavesSome = candidate.isOpen() || candidate.isYardstick;
  auto numLeft = static_cast<double>(numKnown - candidate.number);
  return leavesSome ? left * kFirstShare : left / numLeft;
}

/// Why a preset is of no use, as far as batch and parameters say: so no Program
/// is made of it. Empty: nothing is known.
std::string Chooser::findExcess(const Candidate &candidate) const {
  const std::string &preset = candidate.options.preset;
  double bytes = 0;
  int64_t most = 0, devices = cluster.getNumDevices();
  for (const ChainLayer &layer : step.layers)
    bytes += static_cast<double>(layer.bytes);
  if (auto number = static_cast<int64_t>(step.layers.size());
      preset == kPipelinePreset && number < devices)
    return llvm::formatv("{0} layers are too few for {1} points", number,
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

/// CPU seconds of a candidate that may have no plan.
double Chooser::getShare(const Candidate &candidate) const {
  bool isLimited = options.searchTimeLimit > 0;
  if (insists || (isLimited ? !candidate.isOpen() : !hasProgram))
    return std::numeric_limits<double>::infinity();
  if (isLimited)
    return kMostShares * getSeconds(candidate);
  return std::max(kLeastSeconds, candidate.isOpen() ? kMostPrograms * programs
                                                    : kMostLongest * longest);
}

/// The commands are those of the device, without kernels.
CompileOptions Chooser::getOptions(const Candidate &candidate) {
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
  own.isCancelled = [this, &candidate] {
    return isCancelled() || isLate() ||
           (hasProgram && !getEnd(candidate).empty());
  };
  // A Program would say what the one plan takes that there was time for. That
  // it fits, and that points have room, only a Program says.
  own.isPlanEnough = [this, &candidate] {
    isPlanned = true;
    sincePlan = Deadline();
    return options.memory < 0 && candidate.isOpen() && !hasProgram &&
           !getEnd(candidate).empty();
  };
  return own;
}

void Chooser::tryOne(Candidate &candidate) {
  CompiledProgram result;
  isPlanned = false;
  double begin = getCpuSeconds();
  share = CpuDeadline(getShare(candidate));
  if (!compile(module, name, getOptions(candidate), result,
               candidate.failure)) {
    if (isLate() && !isCancelled()) {
      wasLate = true;
      candidate.failure =
          "no plan that fits was found in its share of the time";
    } else {
      candidate.excess = result.excess;
    }
    if (std::string end = getEnd(candidate); hasProgram && !end.empty())
      candidate.failure = "not compiled " + end;
    return;
  }
  programs += getCpuSeconds() - begin;
  longest = std::max(longest, getCpuSeconds() - begin);
  candidate.isPriced = !result.bytes.empty();
  if (candidate.isPriced)
    shortest = std::min(shortest, sincePlan.getPassed());
  // A search is held to the memory of devices, and a preset is not.
  std::vector<int64_t> memory;
  if (candidate.options.search.empty() && options.memory < 0)
    memory = cluster.getMemory();
  if (candidate.isPriced)
    candidate.failure =
        measure(candidate, result.bytes, options.cluster, memory);
  candidate.plan = std::move(result.plan);
  candidate.remarks = std::move(result.remarks);
}

void Chooser::weigh(Candidate candidate) {
  candidate.number = candidates.size();
  numKnown = std::max(numKnown, candidates.size() + 1);
  if (options.progress)
    options.progress("layouts", candidate.number, numKnown);
  auto same = llvm::find_if(candidates, [&](const Candidate &each) {
    return isSame(each, candidate);
  });
  // A Program that would be late is not begun.
  std::string end = getEnd(candidate, hasProgram ? shortest : 0);
  if (same != candidates.end() && candidate.failure.empty()) {
    std::string name = std::exchange(candidate, *same).name;
    candidate.name = std::move(name);
    candidate.number = candidates.size();
  } else if (candidate.failure.empty()) { // else no memory holds it
    candidate.failure = findExcess(candidate);
    if (isCancelled() || (hasProgram && !end.empty()))
      candidate.failure = "not tried " + end;
    else if (candidate.failure.empty())
      tryOne(candidate);
  }
  // A preset alone may be far from the best.
  hasProgram |= candidate.failure.empty() && !candidate.options.search.empty();
  candidates.push_back(std::move(candidate));
}

void Chooser::weigh(LayoutCandidates::Candidates all) {
  numKnown = candidates.size() + all.size();
  for (Candidate &candidate : all)
    weigh(std::move(candidate));
}

/// What the answer is no worse than comes first. Of a large step a Program may
/// take half of the limit, so that presets come behind the rule. What may find
/// no plan for long comes last, as far as the limit allows.
void Chooser::weighAll() {
  bool isLimited = options.searchTimeLimit > 0;
  if (isLimited)
    weigh(maker->makeOpen());
  LayoutCandidates::Candidates rule = maker->makeRule(), own;
  auto isYardstick = [](const Candidate &each) { return each.isYardstick; };
  llvm::copy_if(rule, std::back_inserter(own), isYardstick);
  weigh(std::exchange(own, {}));
  weigh(maker->makePresets());
  if (!last.isOver())
    weigh(maker->makeAmp(last));
  varyWhole();
  bool isFirst = isLimited && !wasLate;
  if (isFirst)
    llvm::append_range(own, maker->makeStrands());
  Deadline share(options.searchTimeLimit * kFirstShare, [this] {
    return deadline.isOver() || isInterrupted() || isCancelled();
  });
  if (!share.isOver())
    llvm::append_range(own, maker->makePipelines(share, joinsBatch(), shapes));
  llvm::copy_if(rule, std::back_inserter(own), std::not_fn(isYardstick));
  weigh(std::move(own));
  varyMicrobatches();
  weigh(makeSearched());
  if (!isLimited)
    weigh(maker->makeOpen());
  if (!isFirst)
    weigh(maker->makeStrands());
  if (hasProgram || !wasLate)
    return;
  insists = true;
  llvm::erase_if(candidates, [](const Candidate &each) {
    return each.isOpen() && each.isYardstick;
  });
  weigh(maker->makeOpen());
}

std::optional<LayoutChoice> Chooser::run(std::string &error) {
  auto read = cost::readCluster(options.cluster, error);
  if (!read)
    return std::nullopt;
  cluster = std::move(*read);
  maker.emplace(options, step, cluster);
  std::optional<search::InterruptGuard> guard;
  if (options.takesInterrupts)
    guard.emplace();
  weighAll();
  llvm::sort(candidates, isBetter);
  const Candidate &first = candidates.front();
  if (!first.failure.empty()) {
    bool isNearest = first.excess < CompiledProgram().excess;
    error = "mesh auto: none of " + std::to_string(candidates.size()) +
            " layouts of " + std::to_string(cluster.getNumDevices()) +
            " devices has a Program that fits; " +
            (isNearest ? "the nearest is " : "") + first.name + ": " +
            first.failure;
    return std::nullopt;
  }
  return LayoutChoice{first.options, first.plan, first.remarks,
                      printTable(candidates, cluster.getNumDevices(),
                                 cluster.name, getEnd(first))};
}

std::optional<LayoutChoice> tandem::chooseLayout(std::string_view module,
                                                 std::string_view name,
                                                 const CompileOptions &options,
                                                 const StepLayers &step,
                                                 std::string &error) {
  return Chooser(module, name, options, step).run(error);
}
