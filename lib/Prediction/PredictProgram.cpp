//===- PredictProgram.cpp - predicted timeline of a Program ---------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ClusterMachine.h"
#include "tandem/Cost/Plan.h"
#include "tandem/Prediction/Prediction.h"
#include "tandem_rt/report.h"
#include <cstdio>

namespace tandem {

using namespace rt;

Expected<Timeline> predictProgram(std::string_view text,
                                  const std::string &path) {
  std::span bytes(reinterpret_cast<const uint8_t *>(text.data()), text.size());
  Expected<Program> program = loadProgram(bytes);
  if (!program.ok())
    return program.status();
  std::string error;
  auto cluster = cost::getCluster(path, program->numRanks(), error);
  if (!cluster)
    return Status::error(error);
  auto machine = ClusterMachine::make(*program, *cluster, error);
  if (!machine)
    return Status::error(error);
  auto made = simulate(headOf(*program, programHash(bytes)), *machine);
  return made.ok() ? Expected<Timeline>(std::move(made->timeline))
                   : made.status();
}

/// `27.3 %`.
static std::string printShare(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

Expected<std::string> describeTime(const Timeline &timeline) {
  Expected<Report> report = makeReport(timeline);
  if (!report.ok())
    return report.status();
  std::string line = "timeline " + cost::printSeconds(report->total.seconds) +
                     " (" + timeline.head.predictedFrom + ")";
  for (const PointReport &point : report->points)
    line += (point.point == 0 ? ", bubble of point " : ", of point ") +
            std::to_string(point.point) + " " + printShare(point.bubble);
  return line;
}

} // namespace tandem
