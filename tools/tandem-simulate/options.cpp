//===- options.cpp - the command line of tandem-simulate ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "options.h"

#include "../common/arguments.h"

#include <charconv>
#include <limits>

namespace tandem::simulate {

using rt::Expected;
using rt::Status;

const char *usage() {
  return R"(usage: tandem-run PROGRAM.tdm --device sim [options]

Runs the commands of a Program in virtual time, without data, and prints how long
a step takes and why (docs/clusters.md).

  --cluster FILE   the machines; without it a laptop
  --times FILE     commands that compute take the seconds of this table, which
                   tandem-run --save-times measured; collectives as the cluster says
  --steps N        number of steps (1)
  --jitter SHARE   standard deviation of the time of a command, as a share of it (0)
  --seed N         of the jitter (0)
  --straggler RANK=FACTOR
                   what a rank computes takes so many times longer; may be
                   repeated for other ranks
  --trace FILE     write a timeline of all ranks (docs/timelines.md)
  --json FILE      write the numbers as JSON (docs/clusters.md)
  --help           print this text
)";
}

namespace {
constexpr double kMostJitter = 10, kMostSlower = 1e6;

/// The whole text is a number from `low` to `high`.
bool parseNumber(std::string_view text, double low, double high,
                 double &number) {
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() &&
         number >= low && number <= high;
}

Status takeJitter(Arguments &arguments, double &jitter) {
  std::string text;
  Status status = arguments.takeValue(text);
  if (!status.ok() || parseNumber(text, 0, kMostJitter, jitter))
    return status;
  return Status::error("--jitter is '" + text +
                       "', expected a share such as 0.03");
}

Status takeStraggler(Arguments &arguments, Options &options) {
  std::string text;
  Status status = arguments.takeValue(text);
  if (!status.ok())
    return status;
  std::string_view all = text;
  size_t middle = all.find('=');
  double rank = -1, factor = 0;
  bool isRight =
      middle != all.npos && parseNumber(all.substr(0, middle), 0, 1e9, rank) &&
      double(int64_t(rank)) == rank &&
      parseNumber(all.substr(middle + 1), 1 / kMostSlower, kMostSlower, factor);
  if (!isRight)
    return Status::error("--straggler is '" + text +
                         "', expected a rank and a factor such as 3=1.5");
  auto [own, isNew] = options.simulation.stragglers.emplace(rank, factor);
  return isNew ? Status::success()
               : Status::error("--straggler names rank " +
                               std::to_string(own->first) +
                               " twice, expected each rank once");
}

/// tandem-run has looked at it.
Status takeDevice(Arguments &arguments) {
  std::string device;
  return arguments.takeValue(device);
}

Status parseOne(Arguments &arguments, Options &options) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMostSteps = 1000000;
  rt::SimulationOptions &simulation = options.simulation;
  std::string_view name = arguments.getName();
  if (!arguments.isOption()) {
    if (!options.program.empty())
      return Status::error("found a second program '" +
                           std::string(arguments.getWord()) +
                           "', expected one");
    options.program = arguments.getWord();
    return Status::success();
  }
  if (name == "--device")
    return takeDevice(arguments);
  if (name == "--cluster")
    return arguments.takeValue(options.cluster);
  if (name == "--times")
    return arguments.takeValue(options.times);
  if (name == "--trace")
    return arguments.takeValue(options.trace);
  if (name == "--json")
    return arguments.takeValue(options.json);
  if (name == "--steps")
    return arguments.takeNumber(1, kMostSteps, simulation.steps);
  if (name == "--jitter")
    return takeJitter(arguments, simulation.jitter);
  if (name == "--straggler")
    return takeStraggler(arguments, options);
  if (name == "--seed") {
    int64_t seed = 0;
    Status status = arguments.takeNumber(0, kMost, seed);
    simulation.seed = uint64_t(seed);
    return status;
  }
  if (arguments.isFlag("--help") || arguments.isFlag("-h"))
    return options.help = true, Status::success();
  return Status::error("option " + std::string(arguments.getWord()) +
                       " is not for --device sim, see --device sim --help");
}
} // namespace

Expected<Options> parseOptions(int argc, const char *const *argv) {
  Options options;
  Arguments arguments(argc, argv);
  while (arguments.next())
    if (Status status = parseOne(arguments, options); !status.ok())
      return status;
  if (options.program.empty() && !options.help)
    return Status::error("no program given, see --help");
  return options;
}

} // namespace tandem::simulate
