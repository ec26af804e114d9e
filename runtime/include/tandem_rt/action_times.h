//===- action_times.h - what actions of a pipeline took ---------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_ACTION_TIMES_H
#define TANDEM_RT_ACTION_TIMES_H

#include "tandem_rt/timeline.h"

#include <compare>
#include <map>
#include <optional>
#include <tuple>

namespace tandem::rt {

/// `0F3`: section, letter, microbatch. A sum `0S` has microbatch 0.
struct ActionName {
  unsigned section = 0;
  char letter = 0;
  unsigned microbatch = 0;
  auto operator<=>(const ActionName &) const = default;
};

/// The action of a section that a command belongs to, if it does.
std::optional<ActionName> actionNameOf(const TimelineCommand &command);

/// Microbatches of sections that a listing has in flight at most: each from its
/// forward pass to the end of its backward pass.
int64_t countInFlight(const std::vector<TimelineCommand> &listing);

/// What a timeline shows of a pipeline; ns.
struct ActionTimes {
  /// Of an action, of a rank in a step: from the begin of its first command to
  /// the end of its last one. A sum is sent in pieces, between which its queue
  /// does other things: only they count.
  std::map<std::tuple<ActionName, int64_t, int64_t>, int64_t> taken = {};
  /// Between two points the least: an end that is there first waits for the
  /// other one.
  std::map<std::pair<unsigned, unsigned>, int64_t> transfers = {};

  /// Seconds of a transfer between two points, of the slower way; 0 if there is
  /// none.
  double transferSeconds(unsigned one, unsigned other) const;
};

/// Of the steps from `firstStep` on. `strands` microbatches of the Program are
/// one of an action.
ActionTimes actionTimesOf(const Timeline &timeline, int64_t firstStep,
                          unsigned strands = 1);

} // namespace tandem::rt

#endif // TANDEM_RT_ACTION_TIMES_H
