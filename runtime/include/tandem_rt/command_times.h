//===- command_times.h - seconds of a Program's commands --------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A table of how long computing commands take, planned or measured: a session
// that has one sleeps in place of computing (SessionOptions::times), so that
// communication can be measured beside computation on a machine that has not
// the cores for it. As a file:
//
//   {"program": "<content hash>", "from": "measured in 5 steps",
//    "seconds": [{"4": 0.00123, "7": 0.00021}]}
//
// with an object per rank program, from command ids to seconds. A table that a
// cluster's prices make has those of collectives too, for a predicted timeline:
// "collectives" and "latency" beside "seconds", and "slowdowns":
// {"computation": 1.1, "collectives": 1.3, "copies": 1}. Nobody sleeps for
// these.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_COMMAND_TIMES_H
#define TANDEM_RT_COMMAND_TIMES_H

#include "tandem_rt/trace.h"

#include <map>

namespace tandem::rt {

struct CommandTimes {
  std::string program = {}; ///< programHash() of the Program's bytes.
  std::string from = {};    ///< Where the times come from, for people.
  std::string machine = {}; ///< That they were measured on; empty: not known.
  /// By rank program: seconds by the id of each computing command.
  using Table = std::vector<std::map<uint32_t, double>>;
  Table seconds = {};
  /// Of collectives, alone, and what of it, or of a copy between device and
  /// host, disturbs no computation; may be empty.
  Table collectives = {}, latency = {};
  /// How many times longer computation takes beside a collective, a collective
  /// beside computation, and computation beside copies.
  double computationSlowdown = 1, collectiveSlowdown = 1, copySlowdown = 1;
};

/// Whether a command computes: it is no collective, no check that a group
/// combines, no event and no Repeat.
bool isComputation(const Command &command);

/// Exactly the computing commands have a time, finite and not negative.
Status checkTimes(const Program &program, const std::string &hash,
                  const CommandTimes &times);

/// The median of what the events of `trace` took, for each computing command.
/// One that has none is an error: a rank of its program has to be traced.
Expected<CommandTimes> measuredTimes(const Program &program,
                                     const std::string &hash,
                                     const Trace &trace);

Expected<CommandTimes> readTimes(const std::string &path);
Status writeTimes(const CommandTimes &times, const std::string &path);

} // namespace tandem::rt

#endif // TANDEM_RT_COMMAND_TIMES_H
