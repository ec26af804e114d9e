//===- trace.h - recorder of timelines --------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_TRACE_H
#define TANDEM_RT_TRACE_H

#include "tandem_rt/program.h"

#include <map>
#include <vector>

namespace tandem::rt {

/// When one command ran, in nanoseconds of this process' steady clock.
struct TraceEvent {
  int64_t rank = 0;
  uint32_t command = 0;   ///< Place in the listing() of the rank's program.
  uint32_t iteration = 0; ///< Of the Repeat around the command.
  int64_t step = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

/// How this process' steady clock stood to that of process 0, in nanoseconds.
struct ClockReading {
  int64_t process = 0; ///< This one.
  int64_t at = 0;      ///< On this clock.
  int64_t offset = 0;  ///< Added to this clock it gives that of process 0,
  int64_t error = 0;   ///< no more wrong than this.
};

/// The events of the ranks of one process.
struct Trace {
  std::vector<TraceEvent> events;
  /// When recording began; none where process 0 did not answer.
  std::optional<ClockReading> begin;
};

/// Time in which a rank communicates, and computes as well, in nanoseconds.
struct HiddenTime {
  int64_t communication = 0, hidden = 0;
  double share() const {
    return communication ? double(hidden) / double(communication) : 0.0;
  }
};

/// What is said of a timeline that was written.
struct TraceSummary {
  /// Whether it was written by this process.
  bool isWriter = false;
  int64_t numProcesses = 1;
  /// How wrong clocks may be; below 0: not known. In nanoseconds.
  int64_t clockError = 0;
  HiddenTime time = {}; ///< Of all ranks.
  /// What is not there, and why; empty: it is whole.
  std::string lacks = {};
};

/// By rank.
std::map<int64_t, HiddenTime> hiddenTimes(const Program &program,
                                          const Trace &trace);

/// Time of the ranks' collectives that lies beside computation of the same
/// rank, over all their time in collectives; 0 without collectives.
double hiddenShare(const Program &program, const Trace &trace);

} // namespace tandem::rt

#endif // TANDEM_RT_TRACE_H
