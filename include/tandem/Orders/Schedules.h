//===- Schedules.h - orders with a name -------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A schedule makes the order of any number of points, sections and
// microbatches. None of them reads how long an action takes. In all of them
// the sections form a chain.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ORDERS_SCHEDULES_H
#define TANDEM_ORDERS_SCHEDULES_H

#include "tandem/Orders/Order.h"
#include <span>

namespace tandem::orders {

/// What a schedule is made for: p points, v p sections, m microbatches. All are
/// 1 to `kMaxNumber`.
struct Shape {
  unsigned numPoints = 1, numSections = 1, numMicrobatches = 1;
};

/// Where the sections of a chain lie.
enum class Placement : uint8_t {
  /// Section i on point i mod p.
  Loop,
  /// Forth and back over the points: section 2p - 1 lies on point 0.
  Vee,
};

/// A row of Schedules.def.
struct Schedule {
  std::string_view name;
  Order (*write)(const Shape &shape);
  Placement placement;
  /// Of each point; 0 if any number will do.
  unsigned sectionsPerPoint;
  /// As many microbatches as points, times this, are needed at least.
  unsigned microbatchesPerPoint;

  /// As many as `sectionsPerPoint` says; two of each point where any number
  /// will do.
  unsigned getDefaultSections(unsigned numPoints) const;
  unsigned getPoint(unsigned section, unsigned numPoints) const;
  /// Else nothing, with one line in `error`.
  std::optional<Order> make(const Shape &shape, std::string &error) const;
  /// The same for sections of which section i lies on point `places[i]`, which
  /// may be another one than the schedule's, as long as the same sections share
  /// a point.
  std::optional<Order> place(std::span<const unsigned> places,
                             unsigned numPoints, unsigned numMicrobatches,
                             std::string &error) const;
  /// Whether each point runs all its forward passes before any backward pass.
  bool runsForwardFirst() const;
};

/// All of them; the first one is that of a pipeline that names none.
std::span<const Schedule> getSchedules();

/// Null for another name.
const Schedule *findSchedule(std::string_view name);

/// The first one that runs forward passes first.
const Schedule &getForwardFirstSchedule();

/// `1f1b, gpipe or aiao`.
std::string listSchedules();

} // namespace tandem::orders

#endif // TANDEM_ORDERS_SCHEDULES_H
