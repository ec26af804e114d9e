//===- analysis.h - analysis of overlap and waits ---------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A timeline, step by step and rank by rank, in nanoseconds. What a queue waits
// for is what lies before the record of the event that it awaits.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_TRACE_ANALYSIS_H
#define TANDEM_RT_TRACE_ANALYSIS_H

#include "tandem_rt/timeline.h"
#include "trace/intervals.h"

#include <optional>

namespace tandem::rt::trace {

/// Why nothing is computed.
enum class Cause : uint8_t {
  Collective,  ///< Its result is needed, or it runs on the compute queue.
  Computation, ///< That of another queue.
  Beginning,   ///< Nothing has been computed yet, and nothing is awaited.
  End,         ///< Everything is computed.
  Launch       ///< Between two commands: what it takes to begin the next.
};
inline constexpr std::array<std::string_view, 5> kCauseNames = {
    "collective", "computation", "beginning", "end", "launch"};

struct Idle {
  Interval span = {};
  Cause cause = Cause::Launch;
  /// What is waited for: a place in the listing.
  std::optional<uint32_t> command = {};
};

/// A collective, once.
struct CollectiveRun {
  const TraceEvent *event = nullptr;
  int64_t hidden = 0;
  /// Before it began: for its data, and, with the data there, for the
  /// collective before it on its queue. Then for the last member of its group.
  int64_t data = 0, link = 0, peer = 0;
  std::optional<uint32_t> dataFrom = {}, linkAfter = {};
  int64_t lastPeer = -1; ///< A rank.
  /// Why nothing was computed beside it.
  std::vector<Idle> exposed = {};
};

/// A rank in a step.
struct RankStep {
  int64_t rank = 0;
  /// Whether every command has run.
  bool isComplete = false;
  /// Commands by queue, without records, in order.
  std::vector<std::vector<const TraceEvent *>> queues = {};
  std::vector<Interval> computing = {}, communicating = {}, copying = {};
  int64_t hidden = 0, copiesHidden = 0;
  std::vector<Idle> idle = {};
  std::vector<CollectiveRun> collectives = {};
};

struct StepRun {
  int64_t step = 0;
  /// From the first begin to the last end on any rank, without waiting for
  /// events or the sender of a transfer before that.
  Interval span = {};
  std::vector<RankStep> ranks = {}; ///< Those that have events.
  bool isComplete = false;          ///< On each rank of the timeline.
};

/// In ascending order of steps. Refers to the events of `timeline`.
std::vector<StepRun> analyse(const Timeline &timeline);

} // namespace tandem::rt::trace

#endif // TANDEM_RT_TRACE_ANALYSIS_H
