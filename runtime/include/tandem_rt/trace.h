//===- trace.h - timelines of steps -----------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_TRACE_H
#define TANDEM_RT_TRACE_H

#include "tandem_rt/program.h"

#include <iosfwd>
#include <string>
#include <vector>

namespace tandem::rt {

/// When one command ran. Times are nanoseconds since the session began.
struct TraceEvent {
  int64_t rank = 0;
  uint32_t command = 0;   ///< Place in the listing() of the rank's program.
  uint32_t iteration = 0; ///< Of the Repeat around the command.
  int64_t step = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

struct Trace {
  std::vector<TraceEvent> events;
};

/// Chrome's trace format: one process per rank, a thread per queue; each slice
/// carries command id, bytes, FLOPs, stage, strand and source location. Events
/// and waits are waiting time, drawn as such. Written event by event: with the
/// recording a session needs at most 200 bytes of memory per event.
void writeChromeTrace(const Program &program, const Trace &trace,
                      std::ostream &out);
Status writeChromeTrace(const Program &program, const Trace &trace,
                        const std::string &path);

/// Time of the ranks' collectives that lies beside computation of the same
/// rank, over all their time in collectives; 0 without collectives.
double hiddenShare(const Program &program, const Trace &trace);

} // namespace tandem::rt

#endif // TANDEM_RT_TRACE_H
