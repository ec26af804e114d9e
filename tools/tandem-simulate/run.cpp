//===- run.cpp - simulation of a Program ----------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "run.h"

#include "../common/file.h"
#include "tandem/Prediction/Prediction.h"
#include "tandem_rt/new_file.h"

#include <cstdio>

namespace tandem::simulate {

using namespace rt;

/// Event by event: of all ranks they need not fit into memory.
static Status writeTrace(const Simulated &simulated, const std::string &path) {
  NewFile file(path, kTimelineFile);
  TimelineWriter writer(simulated.timeline.head, file.stream());
  simulated.visitAll([&](const TraceEvent &event) { writer.add(event); });
  writer.finish();
  return file.finish();
}

static const FileKind kSimulationFile{
    "the numbers of a simulation",
    [](std::string_view begin) { return begin.starts_with("{\"from\": "); }};

static Status writeJson(const SimulationReport &report,
                        const std::string &path) {
  NewFile file(path, kSimulationFile);
  file.stream() << printSimulationJson(report);
  return file.finish();
}

Status run(const Options &options) {
  for (auto [path, kind] : {std::pair(&options.trace, &kTimelineFile),
                            std::pair(&options.json, &kSimulationFile)})
    if (!path->empty())
      if (Status status = checkOutput(
              *path, *kind, {options.program, options.cluster, options.times});
          !status.ok())
        return status;
  Expected<Bytes> bytes = readFile(options.program);
  if (!bytes.ok())
    return bytes.status();
  std::string_view text(reinterpret_cast<const char *>(bytes->data()),
                        bytes->size());
  Expected<SimulationReport> report =
      simulateProgram(text, options.cluster, options.simulation, options.times);
  if (!report.ok())
    return report.status();
  std::fputs(printSimulation(*report).c_str(), stdout);
  if (!options.json.empty())
    if (Status status = writeJson(*report, options.json); !status.ok())
      return status;
  return options.trace.empty() ? Status::success()
                               : writeTrace(report->simulated, options.trace);
}

} // namespace tandem::simulate
