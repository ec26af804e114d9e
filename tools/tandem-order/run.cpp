//===- run.cpp - what tandem-order does -----------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "run.h"

#include "tandem/Orders/Simulate.h"
#include "tandem/Orders/VerifyOrder.h"
#include "tandem/Support/TextFile.h"

#include <cmath>
#include <cstdio>

namespace tandem::order {

using namespace orders;
using rt::Expected;
using rt::Status;

namespace {
Expected<std::string> readFile(const std::string &path) {
  std::string error;
  std::optional<std::string> text = readTextFile(path, error);
  if (text)
    return std::move(*text);
  return Status::error(path + ": cannot be read: " + error);
}

/// Of the file, or what the order itself says.
Expected<Partition> readPartition(const Options &options, const Order &order) {
  std::string error;
  std::optional<Partition> partition;
  if (options.sections.empty()) {
    partition = inferPartition(order, options.costs.value_or(EqualCosts()),
                               options.input, error);
  } else {
    Expected<std::string> text = readFile(options.sections);
    if (!text.ok())
      return text.status();
    partition = parsePartition(*text, options.sections, error);
  }
  if (partition)
    return std::move(*partition);
  return Status::error(error);
}

Expected<OrderLimits> getLimits(const Options &options, unsigned numPoints) {
  OrderLimits limits;
  if (options.numMicrobatches > 0)
    limits.numMicrobatches = options.numMicrobatches;
  limits.activations = options.limits;
  if (limits.activations.size() == 1)
    limits.activations.resize(numPoints, options.limits[0]);
  if (!limits.activations.empty() && limits.activations.size() != numPoints)
    return Status::error(
        "--limit has " + std::to_string(limits.activations.size()) +
        " numbers, expected one or " + std::to_string(numPoints));
  return limits;
}

std::string printShare(double share) {
  char buffer[32];
  // The rest is that of floating point.
  snprintf(buffer, sizeof(buffer), "%.2f %%", 100 * std::max(0.0, share));
  return buffer;
}

unsigned findLongest(const Simulation &simulation) {
  for (unsigned i = 0; i < simulation.points.size(); ++i) {
    Interval span = simulation.points[i].span;
    if (span.end - span.begin == simulation.longestSpan)
      return i;
  }
  return 0;
}

void printPoints(const Simulation &simulation) {
  printf("%-8s %12s %12s %12s %10s %12s\n", "point", "begin", "end", "busy",
         "bubble", "peak");
  for (size_t i = 0; i < simulation.points.size(); ++i) {
    const PointTime &point = simulation.points[i];
    double makespan = simulation.makespan;
    double bubble = makespan > 0 ? 1 - point.busy / makespan : 0;
    printf("%-8zu %12s %12s %12s %10s %12s\n", i,
           printQuantity(point.span.begin).c_str(),
           printQuantity(point.span.end).c_str(),
           printQuantity(point.busy).c_str(), printShare(bubble).c_str(),
           printQuantity(point.peak).c_str());
  }
}

void printSimulation(const Partition &partition, const Order &order,
                     const Simulation &simulation, unsigned numColumns) {
  printf("makespan %s\n", printQuantity(simulation.makespan).c_str());
  if (simulation.end > simulation.makespan)
    printf("gradient sums end %s\n", printQuantity(simulation.end).c_str());
  double early = findSplit(partition, order);
  if (early < 1)
    printf("gradient sums in two parts, %s of each in its step: a step of %s\n",
           printShare(early).c_str(),
           printQuantity(simulateSplit(partition, order, early).end).c_str());
  printf("bubble %s\n", printShare(simulation.getBubble()).c_str());
  printf("longest span %s, point %u\n",
         printQuantity(simulation.longestSpan).c_str(),
         findLongest(simulation));
  printPoints(simulation);
  fputs(printTimeline(partition, order, simulation, numColumns).c_str(),
        stdout);
}

std::optional<Order> make(const Options &options, std::string &error) {
  const Schedule &schedule = *findSchedule(options.made);
  unsigned points = options.numPoints;
  unsigned sections = options.sectionsPerPoint
                          ? points * options.sectionsPerPoint
                          : schedule.getDefaultSections(points);
  return schedule.make({points, sections, unsigned(options.numMicrobatches)},
                       error);
}
} // namespace

Status run(const Options &options) {
  std::string error;
  if (!options.made.empty()) {
    std::optional<Order> made = make(options, error);
    if (!made)
      return Status::error(error);
    fputs(print(*made).c_str(), stdout);
    return Status::success();
  }
  Expected<std::string> text = readFile(options.input);
  if (!text.ok())
    return text.status();
  std::optional<Order> order = parseOrder(*text, options.input, error);
  if (!order)
    return Status::error(error);
  Expected<Partition> partition = readPartition(options, *order);
  if (!partition.ok())
    return partition.status();
  Expected<OrderLimits> limits = getLimits(options, partition->numPoints);
  if (!limits.ok())
    return limits.status();
  if (!verifyOrder(*partition, *order, *limits, options.input, error))
    return Status::error(error);
  printSimulation(*partition, *order, simulate(*partition, *order),
                  options.numColumns);
  return Status::success();
}

} // namespace tandem::order
