//===- simulate.h - a step in virtual time ----------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the commands of a Program without data: queues work off their commands
// in order, wait for events, and meet in collectives. What moves data is a flow
// over links, which share their bandwidth fairly. A Machine says how long
// commands take and which links they use. docs/rationale/simulation.md has the
// model.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_SIMULATE_H
#define TANDEM_RT_SIMULATE_H

#include "tandem_rt/timeline.h"

#include <map>

namespace tandem::rt {

/// The name of devices in virtual time, whose Programs have no code.
inline constexpr std::string_view kSimulatedDevice = "sim";

/// A link that nothing else uses.
inline constexpr uint32_t kOwnLink = ~uint32_t(0);

/// What a movement needs of a link: seconds, were the link its own.
struct LinkUse {
  uint32_t link = 0;
  double seconds = 0;
};

/// A collective, a transfer or a copy from or to the host: its latency, then
/// phases one after the other. A phase uses all its links at once, and the one
/// with the least share decides.
struct Movement {
  double latency = 0;
  std::vector<std::vector<LinkUse>> phases = {};
};

/// A command of a rank: a place in its listing.
struct RankCommand {
  int64_t rank = 0;
  uint32_t place = 0;
};

/// What a Program is simulated on.
class Machine {
public:
  virtual ~Machine() = default;

  /// Of a computing command beside nothing else.
  virtual double secondsOf(const RankCommand &command) const = 0;
  /// Of a collective with `members`, of a transfer from the first to the
  /// second, or of a copy between a rank and its host. `commands`: that of one
  /// member of each kind that has come.
  virtual Movement
  movementOf(const std::vector<int64_t> &members,
             const std::vector<RankCommand> &commands) const = 0;
  /// Ranks of one number take the same time for the same command.
  virtual int64_t kindOf(int64_t rank) const = 0;
  /// The links that movements of a rank use, as many on each rank, in one
  /// order.
  virtual std::vector<uint32_t> linksOf(int64_t rank) const = 0;

  /// How many times longer computation takes beside collectives and transfers,
  /// these beside computation, and computation beside copies, which nothing
  /// slows down.
  double computationSlowdown = 1, movementSlowdown = 1, copySlowdown = 1;
  uint32_t numLinks = 0;
  std::string from = {};    ///< Where the times come from, for people.
  std::string machine = {}; ///< That they were measured on; empty: not known.
};

struct SimulationOptions {
  /// Standard deviation of the time of a command, as a share of it.
  double jitter = 0;
  uint64_t seed = 0;
  /// By rank: its commands take so many times longer.
  std::map<int64_t, double> stragglers = {};
  int64_t steps = 1; ///< One after the other, each with times of its own.
};

struct Simulated {
  /// Of the ranks that were simulated.
  Timeline timeline = {};
  std::vector<int64_t> ranks = {};
  /// By rank: the simulated one that does the same at the same time.
  std::vector<int64_t> equalTo = {};

  /// Calls `visit` for the events of all ranks.
  template <typename Visit> void visitAll(Visit visit) const {
    std::map<int64_t, std::vector<int64_t>> equal;
    for (size_t rank = 0; rank < equalTo.size(); ++rank)
      equal[equalTo[rank]].push_back(int64_t(rank));
    for (TraceEvent event : timeline.events)
      for (int64_t rank : equal[event.rank])
        event.rank = rank, visit(event);
  }
  /// The timeline of all ranks.
  Timeline takeAll() &&;
};

/// An error for a listing whose queues wait for what never comes.
Expected<Simulated> simulate(const TimelineHead &head, const Machine &machine,
                             const SimulationOptions &options = {});

} // namespace tandem::rt

#endif // TANDEM_RT_SIMULATE_H
