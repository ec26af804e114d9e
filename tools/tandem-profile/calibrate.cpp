//===- calibrate.cpp - rates by what commands took ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "calibrate.h"
#include "../common/file.h"
#include "collectives.h"
#include "profile.h"
#include "tandem/Prediction/Prediction.h"
#include <algorithm>
#include <cmath>
#include <map>

namespace tandem::profile {

using namespace rt;
using cost::Cluster;
using cost::ComputeRate;
using cost::DeviceKind;

namespace {
struct Sample {
  double flops = 0, bytes = 0;
  double seconds = 0; // without overhead
};
/// By the name of a rate.
using Samples = std::map<std::string, std::vector<Sample>, std::less<>>;

/// What a fused kernel is priced by.
struct Roofline {
  double rate = 0, bandwidth = 0;
  double getSeconds(const Sample &sample) const {
    return std::max(sample.flops / rate, sample.bytes / bandwidth);
  }
};
} // namespace

static bool isHostCopy(const Program &program, const Command &command) {
  return program.queues[command.queue].role == QueueRole::Copy;
}

static Samples takeSamples(const Program &program, const CommandTimes &times,
                           double overhead) {
  Samples samples;
  for (size_t i = 0; i < program.rankPrograms.size(); ++i)
    for (const Command *command : program.rankPrograms[i].listing()) {
      if (!isComputation(*command) || isHostCopy(program, *command))
        continue;
      PricedWork work = workOf(*command);
      std::string_view name = cost::getRateName(work.op);
      double seconds = times.seconds[i].at(command->id) - overhead;
      if (seconds > 0)
        samples[std::string(name.empty() ? work.type : name)].push_back(
            {static_cast<double>(command->flops),
             static_cast<double>(command->bytes), seconds});
    }
  return samples;
}

//===----------------------------------------------------------------------===//
// Rates
//===----------------------------------------------------------------------===//

static ComputeRate &getRate(DeviceKind &kind, const std::string &name) {
  for (auto &[own, rate] : kind.rates)
    if (own == name)
      return rate;
  return kind.rates.emplace_back(name, ComputeRate()).second;
}

/// By about as many FLOP: the rate that all of them reach together.
static ComputeRate fitRate(const std::vector<Sample> &samples) {
  constexpr double step = 4;
  std::map<int, Sample> sums;
  for (const Sample &sample : samples) {
    if (sample.flops < 1)
      continue;
    Sample &sum =
        sums[static_cast<int>(std::log(sample.flops) / std::log(step))];
    sum.flops += sample.flops;
    sum.bytes += std::log(sample.flops) * sample.seconds;
    sum.seconds += sample.seconds;
  }
  ComputeRate rate;
  for (const auto &[bin, sum] : sums)
    rate.peak = std::max(rate.peak, sum.flops / sum.seconds);
  for (const auto &[bin, sum] : sums)
    rate.efficiency.push_back(
        {roundDigits(std::exp(sum.bytes / sum.seconds)),
         std::min(1.0, roundDigits(sum.flops / sum.seconds / rate.peak))});
  rate.peak = roundDigits(rate.peak);
  return rate;
}

static double getError(const std::vector<Sample> &kernels,
                       const Roofline &roofline) {
  double error = 0;
  for (const Sample &sample : kernels)
    error += sample.seconds *
             std::abs(std::log(roofline.getSeconds(sample) / sample.seconds));
  return error;
}

/// Tries rates and bandwidths in steps of an eighth.
static Roofline fitRoofline(const std::vector<Sample> &kernels,
                            double bandwidth) {
  constexpr double step = 1.125;
  std::vector<double> rates;
  for (const Sample &sample : kernels)
    if (sample.flops > 0)
      rates.push_back(sample.flops / sample.seconds);
  Roofline best;
  double least = INFINITY;
  auto [low, high] = std::minmax_element(rates.begin(), rates.end());
  for (double rate = *low; rate <= *high * step; rate *= step)
    for (double tried = bandwidth / 16; tried < bandwidth * 16; tried *= step)
      if (double error = getError(kernels, {rate, tried}); error < least)
        least = error, best = {rate, tried};
  double priced = 0, measured = 0;
  for (const Sample &sample : kernels) {
    priced += best.getSeconds(sample);
    measured += sample.seconds;
  }
  double factor = priced / measured;
  return {best.rate * factor, best.bandwidth * factor};
}

static void calibrate(DeviceKind &kind, Samples samples) {
  auto kernels = std::move(samples[std::string(cost::kFusedRate)]);
  samples.erase(std::string(cost::kFusedRate));
  // What moves no byte and computes nothing has no rate.
  std::erase_if(kernels, [](const Sample &sample) {
    return sample.bytes < 1 && sample.flops < 1;
  });
  if (std::ranges::any_of(kernels, [](auto &each) { return each.flops > 0; })) {
    Roofline fused = fitRoofline(kernels, kind.memoryBandwidth);
    getRate(kind, std::string(cost::kFusedRate)) = {roundDigits(fused.rate),
                                                    {}};
    kind.memoryBandwidth = roundDigits(fused.bandwidth);
  }
  for (const auto &[name, own] : samples)
    if (ComputeRate rate = fitRate(own); rate.peak > 0)
      getRate(kind, name) = rate;
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

Status calibrate(const Options &options) {
  Expected<Bytes> bytes = readFile(options.calibrate);
  if (!bytes.ok())
    return bytes.status();
  Expected<Program> program = loadProgram(*bytes);
  if (!program.ok())
    return Status::error(options.calibrate + ": " + program.status().message());
  Expected<CommandTimes> times = readTimes(options.times);
  if (!times.ok())
    return times.status();
  if (Status status = checkTimes(*program, programHash(*bytes), *times);
      !status.ok())
    return Status::error(options.times + ": " + status.message());
  std::string error;
  auto cluster = cost::readCluster(options.cluster, error);
  if (!cluster)
    return Status::error(error);
  if (cluster->kinds.size() != 1)
    return Status::error(options.cluster + ": found " +
                         std::to_string(cluster->kinds.size()) +
                         " kinds of devices, expected one");
  DeviceKind &kind = cluster->kinds.front();
  calibrate(kind, takeSamples(*program, *times, kind.overhead));
  return writeCluster("# Rates and bandwidth of memory by tandem-profile "
                      "--calibrate: " +
                          times->from + ".\n" + print(*cluster),
                      options.output);
}

} // namespace tandem::profile
