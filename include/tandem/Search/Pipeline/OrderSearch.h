//===- OrderSearch.h - searches the order of a pipeline ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Given sections on points, what their actions cost and hold, and a limit of
// each point, the search finds in which order each point runs its actions. The
// problem and the answer are text. Times are those of Orders/Simulate.h.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SEARCH_PIPELINE_ORDERSEARCH_H
#define TANDEM_SEARCH_PIPELINE_ORDERSEARCH_H

#include "tandem/Orders/Partition.h"
#include "tandem/Search/Pipeline/Deadline.h"

namespace tandem::pipeline {

/// What an order is searched for.
enum class OrderObjective : uint8_t {
  /// The end of the last action and sum of gradients: the time of a step whose
  /// points begin together.
  Makespan,
  /// The longest time from a point's first action to its last action or sum:
  /// about the time of a step that follows another one without a barrier.
  Span,
};

/// Actions that do not take as long each time.
struct Noise {
  /// The standard deviation of an action's seconds, as a share of them.
  double spread = 0;
  uint64_t seed = 0;
};

struct ScheduleProblem {
  orders::Partition partition;
  unsigned numMicrobatches = 1;
  /// What each point may hold; infinity for a point without a limit.
  std::vector<double> limits;
  OrderObjective objective = OrderObjective::Makespan;
  /// With noise the objective is the mean over it.
  std::optional<Noise> noise;
};

/// What the order of a Program is searched for, one after the other: of steps
/// behind each other, of one step, and of one step whose transfers take longer.
/// In a Program several share a link, and in an order without slack all is late
/// behind what arrives late.
struct OrderAim {
  OrderObjective objective = OrderObjective::Makespan;
  double slower = 1;
};
inline constexpr OrderAim kOrderAims[] = {{OrderObjective::Span, 1},
                                          {OrderObjective::Makespan, 1},
                                          {OrderObjective::Makespan, 2},
                                          {OrderObjective::Makespan, 3}};
ScheduleProblem takeAim(ScheduleProblem problem, const OrderAim &aim);

/// The text of a problem: lines of a partition (Orders/Partition.h), and
///
///     microbatches 8
///     limit 4
///     limit 5 point 0
///     objective span
///     noise 0.1 seed 7
///
/// A limit without a point is that of all points that have none of their own.
std::string print(const ScheduleProblem &problem);

/// A problem from its text, which came from `name`. Else nothing, with one line
/// in `error` that begins with `NAME`.
std::optional<ScheduleProblem> parseScheduleProblem(std::string_view text,
                                                    std::string_view name,
                                                    std::string &error);

struct OrderSearchOptions {
  /// Actions that the search may look at; 0 for a second or a few, by the size
  /// of the problem. The order depends on nothing else.
  uint64_t effort = 0;
  uint64_t seed = 1;
  /// Orders that the answer may not be worse than, if they can run and fit.
  std::vector<orders::Order> starts = {};
  /// A search that it ends may give another order each time.
  Deadline deadline = {};
};

struct OrderSearchResult {
  /// Nothing, with one line in `error`, if no order fits.
  std::optional<orders::Order> order;
  std::string error;
  /// Of the order, and what no order is below.
  double cost = 0, lowerBound = 0;
  /// The end of the last action or sum; the longest span of a point.
  double makespan = 0, longestSpan = 0;
  /// What each point holds at most.
  std::vector<double> peaks;
  uint64_t numVisited = 0;
  /// With noise, the cost of what is found where nobody knows of it.
  std::optional<double> costOfPlain;
};

/// Searches the order with the least cost. The answer is verified by
/// `verifyOrder` and timed by `simulate`, which know nothing of the search.
OrderSearchResult searchOrder(const ScheduleProblem &problem,
                              const OrderSearchOptions &options);

/// Verifies and times an order that came from `name`, whatever made it: else
/// nothing, with one line in `error` that begins with `NAME`. The bound is the
/// time that the busiest point computes. With noise the cost is the mean of
/// many samples, which no search has seen.
std::optional<OrderSearchResult> measureOrder(const ScheduleProblem &problem,
                                              const orders::Order &order,
                                              std::string_view name,
                                              std::string &error);

} // namespace tandem::pipeline

#endif // TANDEM_SEARCH_PIPELINE_ORDERSEARCH_H
