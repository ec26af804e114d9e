//===- options.cpp - the command line of tandem-order ---------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "options.h"

#include "../common/arguments.h"

#include <algorithm>
#include <charconv>

namespace tandem::order {

using rt::Expected;
using rt::Status;

std::string usage() {
  return R"(usage: tandem-order ORDER.csv [options]
       tandem-order --make NAME --points N --microbatches N [--sections-per-point N]

Checks the order of a pipeline and prints how long a step takes, what waits and
what each point holds of activations (docs/orders.md). '-' reads standard
input.

  --costs F,I,W[,C[,S]]
                     seconds of each section's F, I and W, of a value between
                     neighbours, and of the sum of a section's gradients
                     (1,1,1,0,0); sections form a chain
  --sections FILE    points, costs and edges of the sections
  --microbatches N   number of microbatches (as many as the order names)
  --limit N[,N...]   what every point, or each one, may hold of activations
  --columns N        width of the timeline (100)
  --make NAME        print the order of this name
  --points N         of --make: number of points
  --sections-per-point N
                     of --make: for interleaved, aiao and interleaved-zb (2)
  --help             print this text

Names of orders: )" +
         orders::listSchedules() + "\n";
}

namespace {
constexpr int64_t kNarrowest = 10, kWidest = 10000;
/// An order of some million actions.
constexpr int64_t kMostActions = 10'000'000;

Status parseNumbers(Arguments &arguments, const std::string &expected,
                    std::vector<double> &numbers) {
  std::string name(arguments.getName()), text;
  if (Status status = arguments.takeValue(text); !status.ok())
    return status;
  const char *at = text.data(), *end = at + text.size();
  while (true) {
    double number = 0;
    auto [stop, error] = std::from_chars(at, end, number);
    if (error != std::errc() ||
        !(number >= 0 && number <= orders::kMaxQuantity) ||
        (stop != end && *stop != ','))
      return Status::error(name + " is '" + text + "', expected " + expected);
    numbers.push_back(number);
    if (stop == end)
      return Status::success();
    at = stop + 1;
  }
}

Status parseCosts(Arguments &arguments, Options &options) {
  const char *expected = "F,I,W and perhaps C and S: numbers from 0 to 1e+15";
  std::vector<double> costs;
  if (Status status = parseNumbers(arguments, expected, costs); !status.ok())
    return status;
  if (costs.size() < 3 || costs.size() > 5)
    return Status::error("--costs has " + std::to_string(costs.size()) +
                         " numbers, expected " + expected);
  costs.resize(5);
  options.costs = {costs[0], costs[1], costs[2], costs[3], costs[4]};
  return Status::success();
}

Status parseOption(Arguments &arguments, Options &options) {
  std::string_view name = arguments.getName();
  if (arguments.isFlag("--help") || arguments.isFlag("-h"))
    return options.help = true, Status::success();
  if (name == "--costs")
    return parseCosts(arguments, options);
  if (name == "--sections")
    return arguments.takeValue(options.sections);
  if (name == "--make")
    return arguments.takeValue(options.made);
  if (name == "--points")
    return arguments.takeNumber(1, orders::kMaxNumber, options.numPoints);
  if (name == "--sections-per-point")
    return arguments.takeNumber(1, orders::kMaxNumber,
                                options.sectionsPerPoint);
  if (name == "--microbatches")
    return arguments.takeNumber(1, orders::kMaxNumber, options.numMicrobatches);
  if (name == "--columns")
    return arguments.takeNumber(kNarrowest, kWidest, options.numColumns);
  if (name == "--limit") {
    options.limits.clear();
    return parseNumbers(arguments, "numbers from 0 to 1e+15 divided by commas",
                        options.limits);
  }
  return arguments.failUnknown();
}

Status checkMade(const Options &options) {
  if (!orders::findSchedule(options.made))
    return Status::error("--make is '" + options.made + "', expected " +
                         orders::listSchedules());
  if (!options.input.empty() || options.costs || !options.sections.empty() ||
      !options.limits.empty())
    return Status::error(
        "found more than --points, --microbatches and --sections-per-point "
        "beside --make, expected to print an order alone");
  if (options.numPoints == 0 || options.numMicrobatches == 0)
    return Status::error("--make needs --points and --microbatches");
  // No product of two overflows.
  int64_t sections =
      options.numPoints * std::max<int64_t>(1, options.sectionsPerPoint);
  if (sections > kMostActions / options.numMicrobatches)
    return Status::error("found " + std::to_string(sections) +
                         " sections and " +
                         std::to_string(options.numMicrobatches) +
                         " microbatches, expected a product of at most " +
                         std::to_string(kMostActions));
  return Status::success();
}

Status check(const Options &options) {
  if (!options.made.empty())
    return checkMade(options);
  if (options.input.empty())
    return Status::error(
        "found no order, expected 'tandem-order ORDER.csv', see --help");
  if (options.numPoints > 0 || options.sectionsPerPoint > 0)
    return Status::error(
        std::string("found ") +
        (options.numPoints > 0 ? "--points" : "--sections-per-point") +
        " without --make, which reads it");
  if (options.costs && !options.sections.empty())
    return Status::error("found --costs and --sections, expected one of them");
  return Status::success();
}
} // namespace

Expected<Options> parseOptions(int argc, const char *const *argv) {
  Options options;
  Arguments arguments(argc, argv);
  while (arguments.next()) {
    Status status;
    if (arguments.isOption() && arguments.getWord() != "-")
      status = parseOption(arguments, options);
    else if (options.input.empty())
      options.input = arguments.getWord();
    else
      status =
          Status::error("found a second order '" +
                        std::string(arguments.getWord()) + "', expected one");
    if (!status.ok())
      return status;
  }
  if (Status status = options.help ? Status::success() : check(options);
      !status.ok())
    return status;
  return options;
}

} // namespace tandem::order
