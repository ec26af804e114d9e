//===- profile.cpp - a cluster file for this machine ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "profile.h"
#include "measure.h"
#include "tandem/Cost/Cluster.h"
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <thread>
#include <unistd.h>

namespace tandem::profile {

using cost::Change;
using cost::Cluster;
using cost::MeasuredCollective;
using rt::CollectiveKind;
using rt::ElementType;
using rt::Expected;
using rt::Status;

/// Digits beyond the fourth are noise.
static double roundDigits(double value) {
  if (value == 0)
    return 0;
  double unit = std::pow(10, std::floor(std::log10(value)) - 3);
  return std::round(value / unit) * unit;
}

namespace {
/// Fills in a cluster, piece by piece.
class Profiler {
public:
  explicit Profiler(const Options &options);

  Status run();
  const Cluster &get() const { return cluster; }

private:
  Status measureOverhead();
  Status measureMemory();
  Status measureRates();
  Status measureRate(ElementType type);
  Status measureCollectives();
  Status measureCollective(Change kind, int64_t ranks);
  Status measureSizes(std::vector<MeasuredCollective> &points);
  void setLink();
  Status measureInterference();
  rt::Expected<double> time(const AddCommands &add);

  const Options &options;
  Effort effort;
  std::vector<int64_t> gemmSizes, collectiveBytes;
  int64_t copyBytes;
  Cluster cluster;
};
} // namespace

Profiler::Profiler(const Options &options) : options(options) {
  effort.ranks = options.ranks;
  effort.threads = options.threads;
  gemmSizes = {16, 32, 64, 128, 256, 512, 1024};
  collectiveBytes = {1 << 12, 1 << 16, 1 << 20, 1 << 22, 1 << 24};
  copyBytes = 64 << 20;
  if (options.quick) {
    effort.stepSeconds = 0.01;
    effort.numSteps = 3;
    gemmSizes = {32, 128, 384};
    collectiveBytes = {1 << 14, 1 << 18, 1 << 22};
    copyBytes = 16 << 20;
  }
  cluster.name = options.name;
  cluster.kinds.resize(1);
  cluster.kinds[0].name = "rank";
  cluster.nodes = {{1, {{0, options.ranks}}}};
}

/// All ranks on one axis.
Expected<double> Profiler::time(const AddCommands &add) {
  return timeCommand(effort, {{"all", options.ranks}}, add);
}

/// The least that a command takes: what each operator pays beside its work.
Status Profiler::measureOverhead() {
  Expected<double> seconds = time(addCopies(64));
  if (!seconds.ok())
    return seconds.status();
  cluster.kinds[0].overhead = roundDigits(*seconds);
  std::fprintf(stderr, "overhead %.3f us\n", *seconds * 1e6);
  return Status::success();
}

Status Profiler::measureMemory() {
  Expected<double> seconds = time(addCopies(copyBytes));
  if (!seconds.ok())
    return seconds.status();
  cost::DeviceKind &kind = cluster.kinds[0];
  kind.memoryBandwidth =
      roundDigits(2 * static_cast<double>(copyBytes) / *seconds);
  kind.memorySize =
      sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / options.ranks;
  std::fprintf(stderr, "memory %.2f GB/s per rank\n",
               kind.memoryBandwidth / 1e9);
  return Status::success();
}

/// Squares of rising size; the fastest is the peak.
Status Profiler::measureRate(ElementType type) {
  std::string name(rt::elementName(type));
  std::vector<std::pair<double, double>> rates;
  double peak = 0;
  for (int64_t size : gemmSizes) {
    Expected<double> seconds = time(addGemms(type, size, size, size));
    if (!seconds.ok())
      return seconds.status();
    double flops = 2 * std::pow(static_cast<double>(size), 3);
    // The overhead is charged apart; it is not all of the time.
    double work = std::max(*seconds - cluster.kinds[0].overhead, *seconds / 2);
    rates.push_back({flops, flops / work});
    peak = std::max(peak, flops / work);
    cluster.operators.push_back(
        {"nn.matmul", name, {size, size, size}, roundDigits(*seconds)});
    std::fprintf(stderr, "product %s %lld: %.2f GFLOP/s per rank\n",
                 name.c_str(), static_cast<long long>(size),
                 flops / *seconds / 1e9);
  }
  for (auto &[flops, rate] : rates)
    rate = std::min(1.0, roundDigits(rate / peak));
  cluster.kinds[0].rates.push_back({name, {roundDigits(peak), rates}});
  return Status::success();
}

Status Profiler::measureRates() {
  for (ElementType type :
       {ElementType::F32, ElementType::F64, ElementType::BF16})
    if (Status status = measureRate(type); !status.ok())
      return status;
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// In the order of `Change`.
static constexpr struct {
  CollectiveKind kind;
  const char *name;
} kKinds[] = {{CollectiveKind::AllGather, "all-gather"},
              {CollectiveKind::ReduceScatter, "reduce-scatter"},
              {CollectiveKind::AllReduce, "all-reduce"},
              {CollectiveKind::AllToAll, "all-to-all"}};

/// The least of what was measured of each size, in groups of neighbours, all of
/// them at the same time.
Status Profiler::measureSizes(std::vector<MeasuredCollective> &points) {
  for (MeasuredCollective &point : points) {
    auto [kind, name] = kKinds[static_cast<unsigned>(point.kind)];
    std::vector<rt::Axis> mesh = {{"groups", options.ranks / point.ranks},
                                  {"members", point.ranks}};
    Expected<double> seconds = timeCommand(
        effort, mesh, addCollectives(kind, 1, point.ranks, point.bytes));
    if (!seconds.ok())
      return seconds.status();
    point.seconds = std::min(point.seconds, roundDigits(*seconds));
    std::fprintf(stderr, "%s of %lld ranks, %lld B: %.2f us\n", name,
                 static_cast<long long>(point.ranks),
                 static_cast<long long>(point.bytes), *seconds * 1e6);
  }
  return Status::success();
}

/// Measures again where other processes made small collectives as slow as large
/// ones, which no cluster can be.
Status Profiler::measureCollective(Change change, int64_t ranks) {
  constexpr unsigned maxRounds = 5;
  constexpr double unknown = std::numeric_limits<double>::infinity();
  std::vector<MeasuredCollective> points;
  int64_t unit = 4 * ranks * ranks;
  for (int64_t wanted : collectiveBytes)
    points.push_back({change, false, ranks,
                      std::max<int64_t>(wanted / unit, 1) * unit, unknown});
  for (unsigned round = 0; round == 0 || !cost::rises(points); ++round) {
    if (round == maxRounds)
      return Status::error(
          "measured " + std::to_string(round) + " times, " +
          kKinds[static_cast<unsigned>(change)].name + " of " +
          std::to_string(ranks) +
          " ranks takes no longer for more bytes, expected a machine with less "
          "other work");
    if (Status status = measureSizes(points); !status.ok())
      return status;
  }
  cluster.collectives.insert(cluster.collectives.end(), points.begin(),
                             points.end());
  return Status::success();
}

/// The groups that an axis of a mesh over all ranks can have.
Status Profiler::measureCollectives() {
  for (int64_t ranks = 2; ranks <= options.ranks; ++ranks) {
    if (options.ranks % ranks)
      continue;
    for (unsigned kind = 0; kind < cost::kNumChanges; ++kind)
      if (Status status = measureCollective(static_cast<Change>(kind), ranks);
          !status.ok())
        return status;
  }
  setLink();
  return Status::success();
}

/// The link that makes the formula of an all-reduce over all ranks the line
/// through its measured times.
void Profiler::setLink() {
  cluster.node = cost::Link{0, 1, true, 0};
  std::vector<cost::Axis> axes(1);
  axes[0].name = "all";
  axes[0].size = options.ranks;
  std::string error; // the mesh has as many points as the cluster devices
  priceMesh(cluster, axes, error);
  cost::ChangeRate rate =
      axes[0].rates[static_cast<unsigned>(Change::AllReduce)];
  double ranks = static_cast<double>(options.ranks);
  cluster.node->latency =
      roundDigits(rate.latency / (2 * std::ceil(std::log2(ranks))));
  cluster.node->bandwidth = roundDigits(2 * (ranks - 1) / ranks /
                                        std::max(rate.secondsPerByte, 1e-15));
  // What a collective costs beside its bytes is paid again by each piece.
  cluster.pieceLatency = roundDigits(rate.latency);
}

Status Profiler::measureInterference() {
  constexpr int64_t size = 256;
  int64_t bytes = (1 << 20) / (4 * options.ranks) * (4 * options.ranks);
  Expected<double> product = time(addGemms(ElementType::F32, size, size, size));
  Expected<double> collective =
      time(addCollectives(CollectiveKind::AllReduce, 0, options.ranks, bytes));
  if (!product.ok() || !collective.ok())
    return product.ok() ? collective.status() : product.status();
  Beside alone{*product, *collective};
  Expected<Beside> beside = timeBeside(effort, size, bytes, alone);
  if (!beside.ok())
    return beside.status();
  cluster.computeSlowdown =
      std::max(1.0, roundDigits(beside->computation / alone.computation));
  cluster.collectiveSlowdown =
      std::max(1.0, roundDigits(beside->collective / alone.collective));
  std::fprintf(stderr,
               "beside each other: computation takes %.2f, collectives %.2f "
               "times longer\n",
               cluster.computeSlowdown, cluster.collectiveSlowdown);
  return Status::success();
}

Status Profiler::run() {
  for (auto measure : {&Profiler::measureOverhead, &Profiler::measureMemory,
                       &Profiler::measureRates, &Profiler::measureCollectives,
                       &Profiler::measureInterference})
    if (Status status = (this->*measure)(); !status.ok())
      return status;
  return Status::success();
}

//===----------------------------------------------------------------------===//
// The file
//===----------------------------------------------------------------------===//

static std::string getHeader(const Options &options) {
  return "# Measured by tandem-profile" +
         std::string(options.quick ? " --quick" : "") + ": " +
         std::to_string(options.ranks) + " ranks at work, " +
         std::to_string(options.threads) + " thread(s) each, on " +
         std::to_string(std::thread::hardware_concurrency()) +
         " core(s) of one machine.\n# Rates, memory and bandwidth are those of "
         "one rank while all of them work.\n";
}

static Status failToWrite(const std::string &path) {
  return Status::error(path + ": cannot be written, expected a file in an "
                              "existing folder");
}

Status profile(const Options &options) {
  // Known before minutes of measuring; what is there stays until then.
  bool isNew = !std::filesystem::exists(options.output);
  if (!options.output.empty() && !std::ofstream(options.output, std::ios::app))
    return failToWrite(options.output);
  Profiler profiler(options);
  if (Status status = profiler.run(); !status.ok()) {
    std::error_code ignored;
    if (isNew && !options.output.empty())
      std::filesystem::remove(options.output, ignored);
    return status;
  }
  std::string text = getHeader(options) + print(profiler.get()), error;
  if (!cost::parseCluster(text, "cluster", error))
    return Status::error("internal error: what was measured does not read "
                         "back: " +
                         error);
  if (options.output.empty()) {
    std::cout << text << std::flush;
    return Status::success();
  }
  std::ofstream file(options.output, std::ios::binary);
  if (!(file << text << std::flush))
    return failToWrite(options.output);
  return Status::success();
}

} // namespace tandem::profile
