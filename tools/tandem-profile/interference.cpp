//===- interference.cpp - slow-down of overlapped work --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "measure.h"
#include <algorithm>

namespace tandem::profile {

using namespace rt;

namespace {
/// What both queues of a rank did in one step.
struct Busy {
  int64_t begin[2] = {INT64_MAX, INT64_MAX}, end[2] = {0, 0};
};

/// Seconds and number of commands that lie within the time of both queues.
struct Sum {
  double seconds = 0;
  int64_t count = 0;
};
} // namespace

/// The queue of a timed command.
static std::optional<size_t> getQueue(const Program &program,
                                      const TraceEvent &event) {
  const Command &command = program.rankPrograms[0].commands[event.command];
  if (command.name != kTimed)
    return std::nullopt;
  return static_cast<size_t>(command.queue);
}

static void addStep(const Session &session, Sum (&sums)[2]) {
  const Program &program = session.program();
  std::vector<Busy> ranks(static_cast<size_t>(program.numRanks()));
  for (const TraceEvent &event : session.trace().events)
    if (auto queue = getQueue(program, event)) {
      Busy &busy = ranks[static_cast<size_t>(event.rank)];
      busy.begin[*queue] = std::min(busy.begin[*queue], event.begin);
      busy.end[*queue] = std::max(busy.end[*queue], event.end);
    }
  for (const TraceEvent &event : session.trace().events) {
    auto queue = getQueue(program, event);
    const Busy &busy = ranks[static_cast<size_t>(event.rank)];
    if (!queue || event.begin < std::max(busy.begin[0], busy.begin[1]) ||
        event.end > std::min(busy.end[0], busy.end[1]))
      continue;
    sums[*queue].seconds += static_cast<double>(event.end - event.begin) * 1e-9;
    ++sums[*queue].count;
  }
}

/// So many commands that both queues are busy for `seconds`.
static int64_t getCount(double seconds, double one) {
  return static_cast<int64_t>(std::clamp(seconds / one, 4.0, 1000.0));
}

Expected<Beside> timeBeside(const Effort &effort, int64_t size, int64_t bytes,
                            Beside alone) {
  ProgramBuilder builder = makeBuilder(effort, {{"all", effort.ranks}});
  // A few commands are cut off at both ends.
  double seconds = 4 * effort.stepSeconds;
  addGemms(ElementType::F32, size, size,
           size)(builder, getCount(seconds, alone.computation));
  addCollectives(CollectiveKind::AllReduce, 0, effort.ranks,
                 bytes)(builder, getCount(seconds, alone.collective));
  Expected<Bytes> program = builder.finish();
  if (!program.ok())
    return program.status();
  auto session = Session::create(*program, {.threads = effort.threads});
  if (!session.ok())
    return session.status();
  Sum sums[2];
  for (int step = 0; step <= effort.numSteps; ++step) {
    (*session)->startTrace();
    if (Status status = (*session)->step(); !status.ok())
      return status;
    if (step > 0)
      addStep(**session, sums);
  }
  // Never beside each other: no slow-down was seen.
  auto getMean = [](const Sum &sum, double fallback) {
    return sum.count ? sum.seconds / static_cast<double>(sum.count) : fallback;
  };
  auto computation = effort.share(getMean(sums[kCompute], alone.computation));
  auto collective = effort.share(getMean(sums[kComm], alone.collective));
  if (!computation.ok() || !collective.ok())
    return computation.ok() ? collective.status() : computation.status();
  return Beside{*computation, *collective};
}

} // namespace tandem::profile
