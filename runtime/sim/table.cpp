//===- table.cpp - predictions by tables of seconds -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/text.h"
#include "tandem_rt/report.h"
#include "tandem_rt/simulate.h"
#include "trace/prices.h"

#include <algorithm>

namespace tandem::rt {

namespace {
/// A table knows no hosts. Each rank has a link in each direction, which its
/// transfers share; collectives have taken turns with all of their kind, and
/// copies have shared the link to the host.
class TableMachine : public Machine {
public:
  TableMachine(const TimelineHead &head, const CommandTimes &times)
      : head(head), times(times) {
    computationSlowdown = times.computationSlowdown;
    movementSlowdown = times.collectiveSlowdown;
    copySlowdown = times.copySlowdown;
    numLinks = uint32_t(2 * head.numRanks());
    from = times.from, machine = times.machine;
  }

  double secondsOf(const RankCommand &command) const override {
    return trace::secondsOf(times, programOf(command), at(command));
  }
  Movement movementOf(const std::vector<int64_t> &members,
                      const std::vector<RankCommand> &commands) const override;
  int64_t kindOf(int64_t) const override { return 0; }
  std::vector<uint32_t> linksOf(int64_t rank) const override {
    return {uint32_t(2 * rank), uint32_t(2 * rank + 1)};
  }

private:
  uint32_t programOf(const RankCommand &command) const {
    return head.rankToProgram[size_t(command.rank)];
  }
  const TimelineCommand &at(const RankCommand &command) const {
    return head.commandsOf(command.rank)[command.place];
  }

  const TimelineHead &head;
  const CommandTimes &times;
};

/// As slow as on the slowest member.
Movement
TableMachine::movementOf(const std::vector<int64_t> &members,
                         const std::vector<RankCommand> &commands) const {
  Movement movement;
  double seconds = 0;
  for (const RankCommand &command : commands) {
    double latency = trace::latencyOf(times, programOf(command), at(command));
    movement.latency = std::max(movement.latency, latency);
    seconds = std::max(seconds, secondsOf(command) - latency);
  }
  if (at(commands.front()).isTransfer())
    movement.phases = {
        {{linksOf(members[0])[0], seconds}, {linksOf(members[1])[1], seconds}}};
  else
    movement.phases = {{{kOwnLink, seconds}}};
  return movement;
}
} // namespace

Expected<Timeline> predictTimeline(const TimelineHead &head,
                                   const CommandTimes &times,
                                   const SimulationOptions &options) {
  Expected<Simulated> simulated =
      simulate(head, TableMachine(head, times), options);
  if (!simulated.ok())
    return simulated.status();
  return std::move(*simulated).takeAll();
}

Expected<Timeline> predictTimeline(const TimelineHead &head,
                                   const std::string &path) {
  Expected<CommandTimes> times = readTimes(path);
  if (!times.ok())
    return times.status();
  if (Status status = trace::settlePrices(head, *times); !status.ok())
    return errorOf("table '", path, "' ", status.message());
  return predictTimeline(head, *times);
}

Expected<Timeline> readPrediction(const TimelineHead &head,
                                  const std::string &path) {
  Expected<bool> isTable = trace::isPrices(path);
  if (!isTable.ok())
    return isTable.status();
  return *isTable ? predictTimeline(head, path) : readTimeline(path);
}

} // namespace tandem::rt
