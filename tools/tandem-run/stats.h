//===- stats.h - times of steps ---------------------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_TANDEM_RUN_STATS_H
#define TANDEM_TOOLS_TANDEM_RUN_STATS_H

#include "tandem_rt/session.h"

namespace tandem::run {

/// Of one step in this process.
struct StepStats {
  double seconds = 0;
  int64_t bytesSent = 0; ///< Of values, to other processes.
};

/// Runs a step, and looks at the clock and the counter around it.
rt::Status runStep(rt::Session &session, StepStats &stats);

/// {"ranks": [0], "timed": true, "bytes_planned": 10,
///  "steps": [{"seconds": 0.01, "bytes_sent": 10}]}
/// where the Program's collectives send `bytes_planned` from these ranks in a
/// step.
rt::Status writeStats(const rt::Session &session, bool isTimed,
                      const std::vector<StepStats> &steps,
                      const std::string &path);

} // namespace tandem::run

#endif // TANDEM_TOOLS_TANDEM_RUN_STATS_H
