//===- hidden.cpp - hidden share of communication -------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem_rt/timeline.h"
#include "trace/intervals.h"

#include <map>

namespace tandem::rt {

using trace::Interval;

std::map<int64_t, HiddenTime> hiddenTimes(const Program &program,
                                          const Trace &trace) {
  std::vector<std::vector<const Command *>> listings;
  for (const RankProgram &rankProgram : program.rankPrograms)
    listings.push_back(rankProgram.listing());
  struct Busy {
    std::vector<Interval> computation, communication;
  };
  std::map<int64_t, Busy> ranks;
  for (const TraceEvent &event : trace.events) {
    uint32_t own = program.rankToProgram[size_t(event.rank)];
    const Command &command = *listings[own][event.command];
    Activity activity =
        activityOf(roleOf(command), program.queues[command.queue].role);
    Busy &busy = ranks[event.rank];
    if (activity == Activity::Computation)
      busy.computation.push_back({event.begin, event.end});
    else if (activity == Activity::Communication)
      busy.communication.push_back({event.begin, event.end});
  }
  std::map<int64_t, HiddenTime> result;
  for (auto &[rank, busy] : ranks) {
    auto communication = trace::merge(std::move(busy.communication));
    auto computation = trace::merge(std::move(busy.computation));
    result[rank] = {trace::lengthOf(communication),
                    trace::overlapOf(communication, computation)};
  }
  return result;
}

double hiddenShare(const Program &program, const Trace &trace) {
  HiddenTime all;
  for (const auto &[rank, time] : hiddenTimes(program, trace)) {
    all.communication += time.communication;
    all.hidden += time.hidden;
  }
  return all.share();
}

} // namespace tandem::rt
