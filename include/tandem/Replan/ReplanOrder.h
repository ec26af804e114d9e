//===- ReplanOrder.h - the order of a Program, by a trace -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A trace of a pipeline says what its actions took. With these durations the
// order search finds another order for the same sections. The Program stays as
// it is: another one is compiled with the order that was found.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REPLAN_REPLANORDER_H
#define TANDEM_REPLAN_REPLANORDER_H

#include "tandem/Search/Pipeline/OrderSearch.h"
#include "tandem_rt/program.h"
#include "tandem_rt/timeline.h"

namespace tandem::replan {

/// What a trace shows of a pipeline.
struct Measured {
  /// Seconds are means over microbatches and steps. Sections form a chain. No
  /// point may hold more microbatches than in the Program's order.
  pipeline::ScheduleProblem problem;
  /// That of the Program.
  orders::Order order;
  /// The first rank of each point.
  std::vector<int64_t> ranks;
  /// Standard deviation of an action's seconds, as a share of them.
  double spread = 0;
  unsigned numSteps = 0;
};

/// Reads what `timeline`, a trace of `program` with events, shows. The first of
/// several steps warms up, and does not count. Else nothing, with one line in
/// `error`.
std::optional<Measured> measureActions(const rt::Program &program,
                                       const rt::Timeline &timeline,
                                       std::string &error);

} // namespace tandem::replan

#endif // TANDEM_REPLAN_REPLANORDER_H
