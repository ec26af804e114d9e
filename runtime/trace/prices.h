//===- prices.h - prices of commands ----------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_TRACE_PRICES_H
#define TANDEM_RT_TRACE_PRICES_H

#include "tandem_rt/command_times.h"
#include "tandem_rt/timeline.h"

namespace tandem::rt::trace {

/// Makes a table one for the Program of `head`. One of another Program, and one
/// that lacks a computing command or a collective, is an error: `is ...`, `has
/// ...`. A combined check may lack: it takes no time. Slow-downs that make
/// beside each other slower than one after the other become 2 and 2.
Status settlePrices(const TimelineHead &head, CommandTimes &prices);

/// Seconds of a command, and what of them is latency.
double secondsOf(const CommandTimes &prices, uint32_t rankProgram,
                 const TimelineCommand &command);
double latencyOf(const CommandTimes &prices, uint32_t rankProgram,
                 const TimelineCommand &command);

/// Whether the file is a table; else it may be a timeline.
Expected<bool> isPrices(const std::string &path);

/// The ranks of the group of `rank` over `axes`, in order.
std::vector<int64_t> groupOf(const TimelineHead &head,
                             const std::vector<uint32_t> &axes, int64_t rank);

} // namespace tandem::rt::trace

#endif // TANDEM_RT_TRACE_PRICES_H
