//===- action_times.cpp - what actions of a pipeline took -----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem_rt/action_times.h"

#include "trace/intervals.h"

#include <algorithm>
#include <charconv>
#include <set>

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

int64_t countInFlight(const std::vector<TimelineCommand> &listing) {
  using Passing = std::pair<unsigned, unsigned>;
  std::map<Passing, size_t> last;
  auto forEach = [&](auto visit) {
    for (size_t place = 0; place < listing.size(); ++place)
      if (auto name = actionNameOf(listing[place]); name && name->letter != 'S')
        visit(place, Passing(name->section, name->microbatch));
  };
  forEach([&](size_t place, Passing passing) { last[passing] = place; });
  std::set<Passing> now;
  size_t most = 0;
  forEach([&](size_t place, Passing passing) {
    now.insert(passing);
    most = std::max(most, now.size());
    if (last[passing] == place)
      now.erase(passing);
  });
  return int64_t(most);
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

/// Of an action's commands.
static int64_t takenBy(char letter, std::vector<trace::Interval> commands) {
  std::vector<trace::Interval> merged = trace::merge(std::move(commands));
  return letter == 'S' ? trace::lengthOf(merged)
                       : merged.back().second - merged.front().first;
}

ActionTimes actionTimesOf(const Timeline &timeline, int64_t firstStep,
                          unsigned strands) {
  ActionTimes times;
  std::map<std::tuple<ActionName, int64_t, int64_t>,
           std::vector<trace::Interval>>
      commands;
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
    commands[{*name, event.rank, event.step}].emplace_back(event.begin,
                                                           event.end);
  }
  for (auto &[key, list] : commands)
    times.taken[key] =
        takenBy(std::get<ActionName>(key).letter, std::move(list));
  return times;
}

} // namespace tandem::rt
