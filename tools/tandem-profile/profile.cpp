//===- profile.cpp - a cluster file for this machine ----------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "profile.h"
#include "collectives.h"
#include "tandem/Device/Gpu.h"
#include "tandem_rt/machine.h"
#include "tandem_rt/new_file.h"
#include <cmath>
#include <cstdio>
#include <iostream>
#include <limits>
#include <set>
#include <thread>
#include <unistd.h>

namespace tandem::profile {

using cost::Cluster;
using rt::CollectiveKind;
using rt::ElementType;
using rt::Expected;
using rt::Status;

/// Without --ranks one per process, or four.
static int64_t getRanks(const Options &options, int64_t processes) {
  if (options.ranks)
    return options.ranks;
  return processes > 1 ? processes : 4;
}

/// Each process then has one.
static bool hasGpu(const Options &options) {
  return findGpu(*findDevice(options.device));
}

namespace {
/// Fills in a cluster, piece by piece.
class Profiler {
public:
  Profiler(const Options &options, std::optional<rt::Processes> job,
           int64_t processes);

  Status run();
  const Cluster &get() const { return cluster; }

private:
  Status findNodes();
  Status takeComputation();
  Status measureComputation();
  Status measureOverhead();
  Status measureMemory();
  Status measureRates();
  Status measureRate(ElementType type);
  Status measureInterference();
  rt::Expected<double> time(const AddCommands &add);

  const Options &options;
  Effort effort;
  std::vector<int64_t> gemmSizes, collectiveBytes;
  int64_t copyBytes, besideSize = 256, besideBytes = 1 << 20;
  Cluster cluster;
};
} // namespace

Profiler::Profiler(const Options &options, std::optional<rt::Processes> job,
                   int64_t processes)
    : options(options) {
  effort.device = options.device;
  effort.ranks = getRanks(options, processes);
  effort.threads = options.threads;
  effort.processes = processes;
  effort.job = std::move(job);
  gemmSizes = {16, 32, 64, 128, 256, 512, 1024};
  collectiveBytes = {1 << 12, 1 << 16, 1 << 20, 1 << 22, 1 << 24};
  copyBytes = 64 << 20;
  if (hasGpu(options)) {
    gemmSizes = {128, 256, 512, 1024, 2048, 4096, 8192};
    collectiveBytes = {1 << 14, 1 << 18, 1 << 22, 1 << 25, 1 << 28};
    copyBytes = 1 << 29;
    besideSize = 4096, besideBytes = 1 << 26;
  }
  if (options.quick) {
    effort.stepSeconds = 0.01;
    effort.numSteps = 3;
    gemmSizes = {32, 128, 384};
    collectiveBytes = {1 << 14, 1 << 18, 1 << 22};
    copyBytes = 16 << 20;
    besideSize = 256, besideBytes = 1 << 20;
  }
  cluster.name = options.name;
  cluster.machine = rt::machineName();
  cluster.kinds.resize(1);
  cluster.kinds[0].name = "rank";
}

/// GPUs of one host are a node, whatever processes have them.
Status Profiler::findNodes() {
  effort.nodes = effort.processes;
  if (hasGpu(options) && effort.job) {
    char name[256] = {};
    gethostname(name, sizeof name - 1);
    auto names = effort.job->exchange("host", name);
    if (!names.ok())
      return names.status();
    effort.nodes = static_cast<int64_t>(
        std::set<std::string>(names->begin(), names->end()).size());
    if (effort.processes % effort.nodes)
      return Status::error("found " + std::to_string(effort.processes) +
                           " processes on " + std::to_string(effort.nodes) +
                           " hosts, expected alike many on each");
  }
  cluster.nodes = {{effort.nodes, {{0, effort.ranks / effort.nodes}}}};
  return Status::success();
}

/// All ranks on one axis.
Expected<double> Profiler::time(const AddCommands &add) {
  return timeCommand(effort, {{"all", effort.ranks}}, add);
}

/// The least that a command takes: what each operator pays beside its work.
Status Profiler::measureOverhead() {
  Expected<double> seconds = time(addCopies(64));
  if (!seconds.ok())
    return seconds.status();
  cluster.kinds[0].overhead = roundDigits(*seconds);
  effort.say("overhead %.3f us\n", *seconds * 1e6);
  return Status::success();
}

Status Profiler::measureMemory() {
  Expected<double> seconds = time(addCopies(copyBytes));
  if (!seconds.ok())
    return seconds.status();
  cost::DeviceKind &kind = cluster.kinds[0];
  kind.memoryBandwidth =
      roundDigits(2 * static_cast<double>(copyBytes) / *seconds);
  Expected<int64_t> bytes = memoryOfDevice(effort);
  if (!bytes.ok())
    return bytes.status();
  kind.memorySize = *bytes / (effort.ranks / effort.processes);
  effort.say("memory %.2f GB/s per rank\n", kind.memoryBandwidth / 1e9);
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
    effort.say("product %s %lld: %.2f GFLOP/s per rank\n", name.c_str(),
               static_cast<long long>(size), flops / *seconds / 1e9);
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

Status Profiler::measureInterference() {
  int64_t size = besideSize;
  int64_t bytes = besideBytes / (4 * effort.ranks) * (4 * effort.ranks);
  Expected<double> product = time(addGemms(ElementType::F32, size, size, size));
  Expected<double> collective =
      time(addCollectives(CollectiveKind::AllReduce, 0, effort.ranks, bytes));
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
  effort.say("beside each other: computation takes %.2f, collectives %.2f "
             "times longer\n",
             cluster.computeSlowdown, cluster.collectiveSlowdown);
  return Status::success();
}

/// Devices of another file, whose computation collectives disturb as it says.
Status Profiler::takeComputation() {
  std::string error;
  auto given = cost::readCluster(options.computation, error);
  if (!given)
    return Status::error(error);
  if (given->kinds.size() != 1)
    return Status::error(options.computation + ": found " +
                         std::to_string(given->kinds.size()) +
                         " kinds of devices, expected one");
  cluster.kinds = given->kinds;
  cluster.operators = given->operators;
  cluster.computeSlowdown = given->computeSlowdown;
  cluster.collectiveSlowdown = given->collectiveSlowdown;
  cluster.copySlowdown = given->copySlowdown;
  return Status::success();
}

Status Profiler::measureComputation() {
  for (auto measure : {&Profiler::measureOverhead, &Profiler::measureMemory,
                       &Profiler::measureRates})
    if (Status status = (this->*measure)(); !status.ok())
      return status;
  return Status::success();
}

Status Profiler::run() {
  bool isGiven = !options.computation.empty();
  Status status = findNodes();
  if (status.ok())
    status = isGiven ? takeComputation() : measureComputation();
  if (status.ok())
    status = measureCollectives(effort, collectiveBytes, cluster);
  return status.ok() && !isGiven ? measureInterference() : status;
}

//===----------------------------------------------------------------------===//
// The file
//===----------------------------------------------------------------------===//

static std::string getHeader(const Options &options, int64_t ranks,
                             int64_t processes) {
  std::string computation =
      options.computation.empty()
          ? "Rates, memory and bandwidth are those of one rank while all of "
            "them work."
          : "Computation is that of '" + options.computation +
                "'; links while all ranks communicate.";
  std::string place =
      hasGpu(options)
          ? "a GPU for each process"
          : std::to_string(options.threads) + " thread(s) each, on " +
                std::to_string(std::thread::hardware_concurrency()) +
                " core(s) of a machine";
  return "# Measured by tandem-profile" +
         (options.device == kDefaultDevice ? ""
                                           : " --device " + options.device) +
         (options.quick ? " --quick" : "") + ": " + std::to_string(ranks) +
         " ranks at work" +
         (processes > 1 ? " in " + std::to_string(processes) + " processes"
                        : "") +
         ", " + place + ".\n# " + computation + "\n";
}

/// What reads as one; an output of ours is far shorter than what is looked at.
static const rt::FileKind kClusterFile{
    "a cluster file", [](std::string_view begin) {
      std::string ignored;
      return cost::parseCluster(std::string(begin), "", ignored).has_value();
    }};

Status checkClusterOutput(const std::string &path,
                          const std::vector<std::string> &inputs) {
  return rt::checkOutput(path, kClusterFile, inputs);
}

Status writeCluster(const std::string &text, const std::string &path) {
  std::string error;
  if (!cost::parseCluster(text, "cluster", error))
    return Status::error("internal error: a cluster file does not read back: " +
                         error);
  if (path.empty()) {
    std::cout << text << std::flush;
    return Status::success();
  }
  rt::NewFile file(path, kClusterFile);
  file.stream() << text;
  return file.finish();
}

/// All processes of a job, which a launcher started with the same options.
static Expected<std::optional<rt::Processes>> join(int64_t processes) {
  if (processes == 1)
    return std::optional<rt::Processes>();
  auto job = rt::Processes::join();
  if (!job.ok())
    return job.status();
  return std::optional<rt::Processes>(std::move(*job));
}

static Status checkRanks(int64_t ranks, int64_t processes) {
  if (ranks % processes == 0)
    return Status::success();
  return Status::error("--ranks is " + std::to_string(ranks) +
                       ", expected a multiple of the " +
                       std::to_string(processes) + " processes of the job");
}

static Status profileTo(const Options &options, const std::string &path) {
  Expected<int64_t> processes = rt::numProcesses();
  if (!processes.ok())
    return processes.status();
  int64_t ranks = getRanks(options, *processes);
  if (Status status = checkRanks(ranks, *processes); !status.ok())
    return status;
  auto job = join(*processes);
  if (!job.ok())
    return job.status();
  bool writes = !*job || (*job)->process() == 0;
  Profiler profiler(options, std::move(*job), *processes);
  if (Status status = profiler.run(); !status.ok() || !writes)
    return status;
  return writeCluster(
      getHeader(options, ranks, *processes) + print(profiler.get()), path);
}

Status profile(const Options &options) {
  // Known before minutes of measuring; what is there stays until then.
  if (Status status = checkClusterOutput(options.output, {options.computation});
      !status.ok())
    return status;
  return profileTo(options, options.output);
}

} // namespace tandem::profile
