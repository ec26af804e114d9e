//===- Simulate.h - the time that an order takes ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A point runs its list in order. An action begins when its point is free and
// what it needs has arrived: a value that crosses points arrives the seconds of
// its edge later, and links do not contend. Activations are held from the begin
// of F to the end of B or W; I may free some (`Section::kept`). A point sums
// its gradients beside its actions, one section after the other: each sum
// begins behind the last B or W of the section.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ORDERS_SIMULATE_H
#define TANDEM_ORDERS_SIMULATE_H

#include "tandem/Orders/Partition.h"
#include <functional>

namespace tandem::orders {

/// Seconds from the begin of the step.
struct Interval {
  double begin = 0, end = 0;
};

struct PointTime {
  /// Begin of its first action, end of its last one.
  Interval span;
  /// Seconds of its actions.
  double busy = 0;
  /// The most that it holds of activations.
  double peak = 0;
};

struct Simulation {
  /// Of each action of the order, in its places.
  std::vector<std::vector<Interval>> actions;
  std::vector<PointTime> points;
  /// The sum of each section's gradients; empty where it takes no time.
  std::vector<Interval> sums;
  /// The end of the last action. One step takes as long.
  double makespan = 0;
  /// The end of the last action or sum.
  double end = 0;
  /// The longest span of a point. Steps that follow each other without a
  /// barrier take about as long each.
  double longestSpan = 0;

  /// The share of the makespan in which the points wait, in the mean; 0 if it
  /// is 0.
  double getBubble() const;
};

/// The seconds of an action.
using ActionSeconds = std::function<double(const Action &)>;

/// The times of an order that can run (`verifyOrder`). With `seconds` each
/// action takes these; sums and transfers are those of the partition.
Simulation simulate(const Partition &partition, const Order &order,
                    const ActionSeconds &seconds = {});

/// The same of a step in a row of steps that begin when the one before has
/// ended on all points. The share `early` of each sum is done in its step, and
/// the rest at the begin of the next one: each point does the rests of its
/// sections in the order of their first F, which wait for them (Fold3D,
/// algorithm 2). With 1 they wait for nothing.
Simulation simulateSplit(const Partition &partition, const Order &order,
                         double early, const ActionSeconds &seconds = {});

/// The share with which a step is shortest, in hundredths; the largest of
/// equals.
double findSplit(const Partition &partition, const Order &order);

/// A line of text per point of at most `numColumns` characters and its frame:
/// the letter of each action and, where there is room, its microbatch and
/// section. Blanks are bubbles. Ends with the seconds of a column.
std::string printTimeline(const Partition &partition, const Order &order,
                          const Simulation &simulation, unsigned numColumns);

/// At most ten digits, as an order's messages have them.
std::string printQuantity(double value);

} // namespace tandem::orders

#endif // TANDEM_ORDERS_SIMULATE_H
