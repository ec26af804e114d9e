//===- stats.cpp - times of steps -----------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "stats.h"
#include "tandem_rt/new_file.h"

#include <chrono>

namespace tandem::run {

using namespace tandem::rt;

Status runStep(Session &session, StepStats &stats) {
  using Clock = std::chrono::steady_clock;
  int64_t before = session.bytesSent();
  Clock::time_point begin = Clock::now();
  Status status = session.step();
  stats.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  stats.bytesSent = session.bytesSent() - before;
  return status;
}

namespace {
int64_t sentBytes(const std::vector<Command> &commands) {
  int64_t bytes = 0;
  for (const Command &command : commands) {
    if (const auto *repeat = std::get_if<Repeat>(&command.operation))
      bytes += repeat->count * sentBytes(repeat->body);
    else if (std::holds_alternative<Collective>(command.operation))
      bytes += command.bytes;
  }
  return bytes;
}

int64_t plannedBytes(const Session &session) {
  const Program &program = session.program();
  int64_t bytes = 0;
  for (int64_t rank : session.job().ranks)
    bytes += sentBytes(
        program.rankPrograms[program.rankToProgram[size_t(rank)]].commands);
  return bytes;
}
} // namespace

Status writeStats(const Session &session, bool isTimed,
                  const std::vector<StepStats> &steps,
                  const std::string &path) {
  NewFile whole(path, kStatsFile);
  std::ostream &file = whole.stream();
  file.precision(9);
  file << "{\"ranks\": [";
  const char *separator = "";
  for (int64_t rank : session.job().ranks)
    file << std::exchange(separator, ", ") << rank;
  file << "], \"timed\": " << (isTimed ? "true" : "false")
       << ", \"bytes_planned\": " << plannedBytes(session) << ", \"steps\": [";
  separator = "\n  ";
  for (const StepStats &step : steps)
    file << std::exchange(separator, ",\n  ")
         << "{\"seconds\": " << step.seconds
         << ", \"bytes_sent\": " << step.bytesSent << "}";
  file << "]}\n";
  return whole.finish();
}

} // namespace tandem::run
