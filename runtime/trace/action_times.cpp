//===- action_times.cpp - what actions of a pipeline took -----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem_rt/action_times.h"

#include <algorithm>
#include <charconv>

namespace tandem::rt {

std::optional<ActionName> actionNameOf(const TimelineCommand &command) {
  ActionName name;
  name.letter = actionOf(command);
  if (!name.letter || name.letter == 'U')
    return std::nullopt;
  const char *end = command.name.data() + command.name.size();
  const char *letter =
      std::from_chars(command.name.data(), end, name.section).ptr;
  std::from_chars(letter + 1, end, name.microbatch);
  return name;
}

double ActionTimes::transferSeconds(unsigned one, unsigned other) const {
  int64_t most = 0;
  for (auto pair : {std::pair(one, other), std::pair(other, one)})
    if (auto found = transfers.find(pair); found != transfers.end())
      most = std::max(most, found->second);
  return 1e-9 * double(most);
}

static void addTransfer(ActionTimes &times, const TimelineCommand &command,
                        int64_t taken) {
  auto [found, isNew] = times.transfers.try_emplace(
      {unsigned(command.from), unsigned(command.to)}, taken);
  found->second = std::min(found->second, taken);
}

ActionTimes actionTimesOf(const Timeline &timeline, int64_t firstStep,
                          unsigned strands) {
  ActionTimes times;
  for (const TraceEvent &event : timeline.events) {
    const TimelineCommand &command = timeline.head[event];
    if (event.step < firstStep)
      continue;
    if (command.isTransfer()) {
      addTransfer(times, command, event.end - event.begin);
      continue;
    }
    std::optional<ActionName> name = actionNameOf(command);
    bool works = command.role == CommandRole::Compute ||
                 command.role == CommandRole::Communicate;
    if (!name || !works)
      continue;
    name->microbatch /= strands;
    auto [found, isNew] = times.spans.try_emplace(
        {*name, event.rank, event.step}, event.begin, event.end);
    found->second.first = std::min(found->second.first, event.begin);
    found->second.second = std::max(found->second.second, event.end);
  }
  return times;
}

} // namespace tandem::rt
