//===- Run.h - running the lists of an order --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_ORDERS_RUN_H
#define TANDEM_LIB_ORDERS_RUN_H

#include "Places.h"
#include "tandem/Orders/Simulate.h"
#include <functional>

namespace tandem::orders {

/// What keeps a point from going on.
struct Block {
  /// The action that cannot begin, and what it waits for.
  Place action, needed;
};

struct Run {
  std::vector<std::vector<Interval>> actions;
  /// Of each point that did not reach its end.
  std::vector<std::optional<Block>> blocks;
  bool isComplete = true;
};

/// Runs the lists of an order whose entries are complete, as far as they go. F
/// of a section begins at its time in `releases` or later; without any at once.
Run runOrder(const Partition &partition, const Order &order,
             const Places &places, const ActionSeconds &seconds = {},
             const std::vector<double> &releases = {});

/// Calls `visit` with what point `point` holds as each of its actions begins,
/// until it is false.
void forEachHeld(const Partition &partition, const Order &order, unsigned point,
                 const std::function<bool(const Action &, double)> &visit);

} // namespace tandem::orders

#endif // TANDEM_LIB_ORDERS_RUN_H
