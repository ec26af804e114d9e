//===- queue_times.cpp - busy and idle time of queues ---------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem_rt/report.h"
#include "trace/analysis.h"

#include <algorithm>

namespace tandem::rt {

using namespace trace;

namespace {
/// Nanoseconds by what was waited for.
using Reasons = std::map<std::pair<std::string_view, int64_t>, int64_t>;

std::pair<std::string_view, int64_t> reasonOf(const Idle &idle,
                                              const CollectiveRun *run) {
  int64_t place = idle.command ? int64_t(*idle.command) : -1;
  if (run && idle.cause == Cause::Collective && place == run->event->command)
    return {"needed", -1};
  return {kCauseNames[size_t(idle.cause)], place};
}

/// The longest first.
std::vector<WaitReason> sortReasons(const TimelineHead &head, int64_t rank,
                                    const Reasons &reasons, double perNano) {
  std::vector<WaitReason> list;
  for (const auto &[reason, nanos] : reasons) {
    if (nanos == 0)
      continue;
    list.push_back({std::string(reason.first), {}, double(nanos) * perNano});
    if (reason.second < 0)
      continue;
    const TimelineCommand &command =
        head.commandsOf(rank)[size_t(reason.second)];
    list.back().command = {head.rankToProgram[size_t(rank)], command.id,
                           command.name, command.kind, command.source};
  }
  std::sort(list.begin(), list.end(),
            [](const WaitReason &a, const WaitReason &b) {
              return std::pair(-a.seconds, a.command.value_or(CommandName())) <
                     std::pair(-b.seconds, b.command.value_or(CommandName()));
            });
  return list;
}

/// What one queue of a rank adds up to over all steps, in nanoseconds.
struct Sums {
  int64_t busy = 0, idle = 0, exposed = 0;
  Reasons reasons = {};
};

void add(const TimelineHead &head, const StepRun &step, const RankStep &rank,
         uint32_t queue, Sums &sums) {
  int64_t busy = 0;
  for (const TraceEvent *event : rank.queues[queue])
    if (head[*event].role == CommandRole::Compute)
      busy += event->end - event->begin;
  if (head.queues[queue].role == QueueRole::Compute)
    for (const Idle &idle : rank.idle)
      sums.reasons[reasonOf(idle, nullptr)] += lengthOf(idle.span);
  for (const CollectiveRun &run : rank.collectives) {
    if (head[*run.event].queue != queue)
      continue;
    int64_t length = run.event->end - run.event->begin;
    busy += length;
    sums.exposed += length - run.hidden;
    for (const Idle &idle : run.exposed)
      if (head.queues[queue].role != QueueRole::Compute)
        sums.reasons[reasonOf(idle, &run)] += lengthOf(idle.span);
  }
  sums.busy += busy;
  sums.idle += lengthOf(step.span) - busy;
}
} // namespace

std::vector<QueueTimes> queueTimes(const Timeline &timeline) {
  const TimelineHead &head = timeline.head;
  std::vector<StepRun> steps = analyse(timeline);
  std::map<std::pair<int64_t, uint32_t>, Sums> all;
  for (const StepRun &step : steps)
    for (const RankStep &rank : step.ranks)
      for (uint32_t queue = 0; queue < head.queues.size(); ++queue)
        if (!rank.queues[queue].empty())
          add(head, step, rank, queue, all[{rank.rank, queue}]);
  double perNano = 1e-9 / double(std::max<size_t>(1, steps.size()));
  std::vector<QueueTimes> result;
  for (const auto &[key, sums] : all)
    result.push_back({key.first, key.second, double(sums.busy) * perNano,
                      double(sums.idle) * perNano,
                      double(sums.exposed) * perNano,
                      sortReasons(head, key.first, sums.reasons, perNano)});
  return result;
}

} // namespace tandem::rt
