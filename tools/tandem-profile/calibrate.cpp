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

  double getBandwidth() const { return bytes / seconds; }
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

/// Of commands that take longer than the overhead.
static Samples takeSamples(const Program &program, const CommandTimes &times,
                           double overhead) {
  Samples samples;
  for (size_t i = 0; i < program.rankPrograms.size(); ++i)
    for (const Command *command : program.rankPrograms[i].listing()) {
      // Copies of other queues have links of their own.
      if (!isComputation(*command) ||
          program.queues[command->queue].role != QueueRole::Compute)
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
  struct Bin {
    double flops = 0, seconds = 0;
    double logFlops = 0; // weighted by seconds
    double getRate() const { return flops / seconds; }
  };
  std::map<int, Bin> bins;
  for (const Sample &sample : samples) {
    if (sample.flops < 1)
      continue;
    double logFlops = std::log(sample.flops);
    Bin &bin = bins[static_cast<int>(logFlops / std::log(step))];
    bin.flops += sample.flops;
    bin.seconds += sample.seconds;
    bin.logFlops += logFlops * sample.seconds;
  }
  ComputeRate rate;
  for (const auto &[number, bin] : bins)
    rate.peak = std::max(rate.peak, bin.getRate());
  for (const auto &[number, bin] : bins)
    rate.efficiency.push_back(
        {roundDigits(std::exp(bin.logFlops / bin.seconds)),
         std::min(1.0, roundDigits(bin.getRate() / rate.peak))});
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

/// Tries rates and bandwidths in steps of an eighth, the largest first: what
/// binds no kernel stays large. `least`: products are priced by the bandwidth,
/// too, and reached it.
static Roofline fitRoofline(const std::vector<Sample> &kernels, double least) {
  constexpr double step = 1.125;
  double most = least, low = INFINITY, high = 0;
  for (const Sample &sample : kernels) {
    most = std::max(most, sample.getBandwidth());
    double rate = sample.flops / sample.seconds;
    low = std::min(low, rate > 0 ? rate : low);
    high = std::max(high, rate);
  }
  Roofline best{high, most};
  double error = getError(kernels, best);
  for (double rate = high; rate > low / step; rate /= step)
    for (double tried = most; tried >= least && tried > most / 1e6;
         tried /= step)
      if (double own = getError(kernels, {rate, tried}); own < error)
        error = own, best = {rate, tried};
  return best;
}

static double getMostBandwidth(const Samples &samples) {
  double most = 0;
  for (const auto &[name, own] : samples)
    for (const Sample &sample : own)
      most = std::max(most, sample.getBandwidth());
  return most;
}

static void calibrate(DeviceKind &kind, Samples samples) {
  auto kernels = std::move(samples[std::string(cost::kFusedRate)]);
  samples.erase(std::string(cost::kFusedRate));
  // What moves no byte and computes nothing has no rate.
  std::erase_if(kernels, [](const Sample &sample) {
    return sample.bytes < 1 && sample.flops < 1;
  });
  if (std::ranges::any_of(kernels, [](auto &each) { return each.flops > 0; })) {
    Roofline fused = fitRoofline(kernels, getMostBandwidth(samples));
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
  if (Status status = checkClusterOutput(
          options.output, {options.calibrate, options.times, options.cluster});
      !status.ok())
    return status;
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
  Samples samples = takeSamples(*program, *times, kind.overhead);
  if (samples.empty())
    return Status::error(options.times +
                         ": found no command that takes longer than the "
                         "overhead of '" +
                         options.cluster + "', expected seconds of a step");
  calibrate(kind, std::move(samples));
  std::string from = times->from;
  std::ranges::replace(from, '\n', ' ');
  return writeCluster("# Rates and bandwidth of memory by tandem-profile "
                      "--calibrate: " +
                          from + ".\n" + print(*cluster),
                      options.output);
}

} // namespace tandem::profile
