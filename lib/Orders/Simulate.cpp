//===- Simulate.cpp - the time that an order takes ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Orders/Simulate.h"
#include "Run.h"
#include <algorithm>
#include <cassert>

using namespace tandem::orders;

double Simulation::getBubble() const {
  double busy = 0;
  for (const PointTime &point : points)
    busy += point.busy;
  return makespan > 0 ? 1 - busy / (makespan * points.size()) : 0;
}

static PointTime measure(const Partition &partition, const Order &order,
                         unsigned point, const std::vector<Interval> &actions) {
  PointTime time;
  if (actions.empty())
    return time;
  time.span = {actions.front().begin, actions.back().end};
  forEachHeld(partition, order, point, [&](const Action &action, double held) {
    time.busy += getSeconds(partition.sections[action.section], action.kind);
    time.peak = std::max(time.peak, held);
    return true;
  });
  return time;
}

/// The share `early` of sums, in the order in which the sections of a point
/// have their last backward action, behind the rests that the step begins with.
static void addSums(const Partition &partition, const Order &order,
                    double early, const std::vector<double> &releases,
                    Simulation &simulation) {
  simulation.sums.resize(partition.sections.size());
  for (unsigned point = 0; point < order.points.size(); ++point) {
    const std::vector<Action> &row = order.points[point];
    std::vector<size_t> last(partition.sections.size());
    for (size_t i = 0; i < row.size(); ++i)
      if (row[i].kind != ActionKind::Forward)
        last[row[i].section] = i;
    double isFree = 0;
    for (const Action &action : row)
      isFree = std::max(isFree, releases[action.section]);
    for (size_t i = 0; i < row.size(); ++i) {
      unsigned section = row[i].section;
      double seconds = early * partition.sections[section].sum;
      if (seconds == 0 || last[section] != i)
        continue;
      double begin = std::max(isFree, simulation.actions[point][i].end);
      isFree = begin + seconds;
      simulation.sums[section] = {begin, isFree};
      simulation.end = std::max(simulation.end, isFree);
    }
  }
}

/// When the rests of sums are done that a step begins with.
static std::vector<double> getReleases(const Partition &partition,
                                       const Order &order, double rest) {
  std::vector<double> releases(partition.sections.size());
  std::vector<bool> isSeen(partition.sections.size());
  for (const std::vector<Action> &row : order.points) {
    double done = 0;
    for (const Action &action : row) {
      if (action.kind != ActionKind::Forward || isSeen[action.section])
        continue;
      isSeen[action.section] = true;
      done += rest * partition.sections[action.section].sum;
      releases[action.section] = done;
    }
  }
  return releases;
}

Simulation tandem::orders::simulate(const Partition &partition,
                                    const Order &order,
                                    const ActionSeconds &seconds) {
  return simulateSplit(partition, order, 1, seconds);
}

Simulation tandem::orders::simulateSplit(const Partition &partition,
                                         const Order &order, double early,
                                         const ActionSeconds &seconds) {
  std::vector<double> releases = getReleases(partition, order, 1 - early);
  Run run = runOrder(partition, order, getPlaces(order), seconds, releases);
  assert(run.isComplete && "expected an order that can run");
  Simulation simulation;
  simulation.actions = std::move(run.actions);
  for (unsigned i = 0; i < order.points.size(); ++i) {
    PointTime time = measure(partition, order, i, simulation.actions[i]);
    simulation.makespan = std::max(simulation.makespan, time.span.end);
    simulation.longestSpan =
        std::max(simulation.longestSpan, time.span.end - time.span.begin);
    simulation.points.push_back(time);
  }
  simulation.end = simulation.makespan;
  addSums(partition, order, early, releases, simulation);
  return simulation;
}

double tandem::orders::findSplit(const Partition &partition,
                                 const Order &order) {
  constexpr int kShares = 100;
  constexpr double kRounding = 1e-9;
  auto getEnd = [&](int share) {
    return simulateSplit(partition, order, double(share) / kShares).end;
  };
  int best = kShares;
  double end = getEnd(best);
  for (int share = kShares - 1; share >= 0; --share)
    if (double other = getEnd(share); other < end * (1 - kRounding))
      best = share, end = other;
  return double(best) / kShares;
}
