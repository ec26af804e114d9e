//===- PredictProgram.cpp - predicted timeline of a Program ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ClusterMachine.h"
#include "tandem/Cost/Plan.h"
#include "tandem/Prediction/Prediction.h"
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
  std::string hash = {};
  cost::Cluster cluster = {};
  std::unique_ptr<ClusterMachine> machine = {};
};
} // namespace

static Expected<std::unique_ptr<Setting>> getSetting(std::string_view text,
                                                     const std::string &path) {
  auto setting = std::make_unique<Setting>();
  std::span bytes(reinterpret_cast<const uint8_t *>(text.data()), text.size());
  Expected<Program> program = loadProgram(bytes);
  if (!program.ok())
    return program.status();
  setting->program = std::move(*program);
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
  auto setting = getSetting(text, path);
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

/// What a step trains on: tokens, if it reads rows of indices.
static std::pair<int64_t, std::string> countItems(const Program &program) {
  const Argument *first = nullptr;
  for (const Argument &argument : program.arguments) {
    if (argument.role != "input" || argument.globalShape.empty())
      continue;
    first = first ? first : &argument;
    if (!isFloat(argument.type) && argument.globalShape.size() == 2)
      return {numElements(argument.globalShape), "tokens"};
  }
  return {first ? first->globalShape.front() : 0, "samples"};
}

/// Seconds of the products of a rank at the peak of its device.
static double getSecondsAtPeak(const RankProgram &rankProgram,
                               const cost::DeviceKind &kind) {
  double seconds = 0;
  int64_t count = 1;
  for (const Command *command : rankProgram.listing()) {
    std::optional<ElementType> type;
    if (const auto *repeat = std::get_if<Repeat>(&command->operation))
      count = repeat->count;
    if (const auto *op = std::get_if<Gemm>(&command->operation))
      type = op->inputType;
    if (const auto *op = std::get_if<Attention>(&command->operation))
      type = op->type;
    if (const auto *op = std::get_if<Convolution>(&command->operation))
      type = op->type;
    if (type)
      seconds += static_cast<double>(command->flops) *
                 static_cast<double>(count) /
                 getPeakRate(kind, elementName(*type));
  }
  return seconds;
}

/// Sums of all devices.
static void addDevices(const Setting &setting, SimulationReport &report) {
  std::map<std::pair<uint32_t, int64_t>, double> known;
  const Program &program = setting.program;
  double atPeak = 0;
  for (int64_t rank = 0; rank < program.numRanks(); ++rank) {
    uint32_t number = program.rankToProgram[rank];
    int64_t kind = setting.machine->kindOf(rank);
    auto [found, isNew] = known.try_emplace({number, kind}, 0);
    if (isNew)
      found->second = getSecondsAtPeak(program.rankPrograms[number],
                                       setting.cluster.kinds[kind]);
    atPeak += found->second;
    report.cost += setting.cluster.kinds[kind].price * report.seconds / 3600;
  }
  report.utilization =
      atPeak / report.seconds / static_cast<double>(program.numRanks());
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

Expected<SimulationReport> simulateProgram(std::string_view text,
                                           const std::string &path,
                                           const SimulationOptions &options,
                                           const std::string &times) {
  auto setting = getSetting(text, path);
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
  std::tie(report.items, report.itemName) = countItems(own.program);
  if (report.seconds > 0)
    addDevices(own, report);
  return report;
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
