//===- PredictProgram.cpp - predicted timeline of a Program ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ClusterMachine.h"
#include "tandem/Cost/Plan.h"
#include "tandem/Prediction/Prediction.h"
#include "tandem_rt/model_facts.h"
#include "tandem_rt/report.h"
#include <cstdio>
#include <map>
#include <span>
#include <tuple>

namespace tandem {

using namespace rt;

namespace {
/// What a Program is simulated on.
struct Setting {
  Program program = {};
  ModelFacts model = {};
  std::string hash = {};
  cost::Cluster cluster = {};
  std::unique_ptr<ClusterMachine> machine = {};
};
} // namespace

using Load = Expected<Program>(std::span<const uint8_t> bytes);

static Expected<std::unique_ptr<Setting>>
getSetting(std::string_view text, const std::string &path, Load &load) {
  auto setting = std::make_unique<Setting>();
  std::span bytes(reinterpret_cast<const uint8_t *>(text.data()), text.size());
  Expected<Program> program = load(bytes);
  if (!program.ok())
    return program.status();
  setting->program = std::move(*program);
  Expected<ModelFacts> model = readModelFacts(bytes);
  if (!model.ok())
    return model.status();
  setting->model = std::move(*model);
  setting->hash = programHash(bytes);
  std::string error;
  auto cluster = cost::getCluster(path, setting->program.numRanks(), error);
  if (!cluster)
    return Status::error(error);
  setting->cluster = std::move(*cluster);
  setting->machine =
      ClusterMachine::make(setting->program, setting->cluster, error);
  if (!setting->machine)
    return Status::error(error);
  return setting;
}

Expected<Timeline> predictProgram(std::string_view text,
                                  const std::string &path) {
  auto setting = getSetting(text, path, loadProgram);
  if (!setting.ok())
    return setting.status();
  const Setting &own = **setting;
  auto made = simulate(headOf(own.program, own.hash), *own.machine);
  return made.ok() ? Expected<Timeline>(std::move(*made).takeAll())
                   : made.status();
}

//===----------------------------------------------------------------------===//
// Reports
//===----------------------------------------------------------------------===//

/// What a step trains on.
static std::pair<int64_t, std::string> countItems(const Setting &setting) {
  if (setting.model.tokens)
    return {setting.model.tokens, "tokens"};
  for (const Argument &argument : setting.program.arguments)
    if (argument.role == "input" && !argument.globalShape.empty())
      return {argument.globalShape.front(), "samples"};
  return {0, "samples"};
}

/// Devices of the Program's ranks, by kind.
static std::map<int64_t, double> countKinds(const Setting &setting) {
  std::map<int64_t, double> count;
  for (int64_t rank = 0; rank < setting.program.numRanks(); ++rank)
    ++count[setting.machine->kindOf(rank)];
  return count;
}

/// The least seconds of the model's products: all devices at their peaks.
static double getSecondsAtPeak(const Setting &setting) {
  double seconds = 0;
  std::map<int64_t, double> devices = countKinds(setting);
  for (const ModelFlops &work : setting.model.flops) {
    double peak = 0;
    for (auto [kind, count] : devices)
      peak += count *
              getPeakRate(setting.cluster.kinds[kind], elementName(work.type));
    seconds += work.flops / peak;
  }
  return seconds;
}

static void addUtilization(const Setting &setting, SimulationReport &report) {
  for (const ModelFlops &work : setting.model.flops)
    report.modelFlops.emplace_back(elementName(work.type), work.flops);
  if (setting.model.flops.empty())
    report.remarks.push_back(
        "MFU is left out: the Program does not say what its model computes, "
        "expected products and a compiler that counts them");
  else
    report.utilization = getSecondsAtPeak(setting) / report.seconds;
}

/// Machines without a price would make a step cheaper than it is.
static void addCost(const Setting &setting, SimulationReport &report) {
  double perHour = 0;
  std::string unpriced;
  for (auto [number, count] : countKinds(setting)) {
    const cost::DeviceKind &kind = setting.cluster.kinds[number];
    perHour += count * kind.price;
    if (kind.price == 0)
      unpriced += (unpriced.empty() ? "'" : ", '") + kind.name + "'";
  }
  if (unpriced.empty())
    report.cost = perHour * report.seconds / 3600;
  else if (perHour > 0)
    report.remarks.push_back("the cost of a step is left out: cluster '" +
                             setting.cluster.name + "' has no price of " +
                             unpriced);
}

static void addSteps(int64_t count, SimulationReport &report) {
  std::vector<int64_t> ends(count + 1);
  for (const TraceEvent &event : report.simulated.timeline.events)
    ends[event.step] = std::max(ends[event.step], event.end);
  for (int64_t step = 1; step <= count; ++step)
    report.steps.push_back(static_cast<double>(ends[step] - ends[step - 1]) *
                           1e-9);
  report.seconds =
      static_cast<double>(ends[count]) * 1e-9 / static_cast<double>(count);
}

static Status takeTimes(const Setting &setting, const std::string &path) {
  if (path.empty())
    return Status::success();
  Expected<CommandTimes> times = readTimes(path);
  if (!times.ok())
    return times.status();
  if (Status status = checkTimes(setting.program, setting.hash, *times);
      !status.ok())
    return Status::error(path + ": " + status.message());
  setting.machine->take(*times);
  return Status::success();
}

static Expected<SimulationReport>
simulateSteps(const Setting &own, const SimulationOptions &options) {
  auto made = simulate(headOf(own.program, own.hash), *own.machine, options);
  if (!made.ok())
    return made.status();
  SimulationReport report{.simulated = std::move(*made)};
  addSteps(options.steps, report);
  report.queues = queueTimes(report.simulated.timeline);
  std::vector<int64_t> room = own.cluster.getMemory();
  for (int64_t rank : report.simulated.ranks)
    report.memory.push_back(
        {rank, room[rank],
         memoryOf(own.program, report.simulated.timeline, rank)});
  std::tie(report.items, report.itemName) = countItems(own);
  if (report.seconds > 0) {
    addUtilization(own, report);
    addCost(own, report);
  }
  return report;
}

Expected<SimulationReport> simulateProgram(std::string_view text,
                                           const std::string &path,
                                           const SimulationOptions &options,
                                           const std::string &times) {
  auto setting = getSetting(text, path, loadProgram);
  if (!setting.ok())
    return setting.status();
  const Setting &own = **setting;
  if (Status status = takeTimes(**setting, times); !status.ok())
    return status;
  for (auto [rank, factor] : options.stragglers)
    if (rank >= own.program.numRanks())
      return Status::error("straggler " + std::to_string(rank) +
                           ", expected a rank below " +
                           std::to_string(own.program.numRanks()));
  return simulateSteps(own, options);
}

Expected<SimulationReport> simulateMade(std::string_view text,
                                        const std::string &path) {
  auto setting = getSetting(text, path, loadMadeProgram);
  return setting.ok() ? simulateSteps(**setting, {}) : setting.status();
}

/// `27.3 %`.
static std::string printShare(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

Expected<std::string> describeTime(const Timeline &timeline) {
  Expected<Report> report = makeReport(timeline);
  if (!report.ok())
    return report.status();
  std::string line = "timeline " + cost::printSeconds(report->total.seconds) +
                     " (" + timeline.head.predictedFrom + ")";
  for (const PointReport &point : report->points)
    line += (point.point == 0 ? ", bubble of point " : ", of point ") +
            std::to_string(point.point) + " " + printShare(point.bubble);
  return line;
}

} // namespace tandem
