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

Simulation tandem::orders::simulate(const Partition &partition,
                                    const Order &order) {
  Run run = runOrder(partition, order, getPlaces(order));
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
  return simulation;
}
