//===- step_json.cpp - a step as JSON -------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/text.h"
#include "tandem_rt/report.h"
#include "trace/choose.h"
#include "trace/json.h"

namespace tandem::rt {

using trace::CollectiveRun;
using trace::Idle;
using trace::json;
using trace::RankStep;

namespace {
std::string axesOf(const TimelineHead &head, const TimelineCommand &command) {
  std::string text;
  for (uint32_t axis : command.axes)
    text += concat(text.empty() ? "" : ", ", head.mesh[axis].name);
  return text;
}

/// Of what takes no time of its own: none.
std::string_view roleOf(const TimelineCommand &command) {
  if (command.role == CommandRole::Compute)
    return "compute";
  if (command.role != CommandRole::Communicate)
    return "";
  return command.isTransfer() ? "transfer" : "communicate";
}

json describe(const TimelineHead &head, const TimelineCommand &command) {
  char action = actionOf(command);
  json result = {{"name", command.name},
                 {"kind", command.kind},
                 {"role", roleOf(command)},
                 {"source", command.source},
                 {"queue", command.queue},
                 {"bytes", command.bytes},
                 {"flops", command.flops},
                 {"stage", command.stage},
                 {"strand", command.strand},
                 {"action", action ? std::string(1, action) : ""},
                 {"axes", axesOf(head, command)}};
  if (command.isTransfer())
    result["from"] = command.from, result["to"] = command.to;
  return result;
}

/// Rows of numbers, a list for each column.
class Columns {
public:
  explicit Columns(std::vector<const char *> names) : names(names) {
    for (const char *name : names)
      columns[name] = json::array();
  }
  void add(const std::vector<json> &row) {
    for (size_t i = 0; i < names.size(); ++i)
      columns[names[i]].push_back(row[i]);
  }
  json columns = json::object();

private:
  const std::vector<const char *> names;
};

json placeOf(const std::optional<uint32_t> &place) {
  return place ? json(*place) : json(-1);
}

/// Times are nanoseconds since `origin`.
class RankWriter {
public:
  RankWriter(const TimelineHead &head, const RankStep &rank, int64_t origin)
      : head(head), rank(rank), origin(origin) {}
  json write() const {
    return {{"rank", rank.rank},
            {"program", head.rankToProgram[size_t(rank.rank)]},
            {"events", events()},
            {"exposed", exposed()},
            {"late", late()},
            {"idle", idle()}};
  }

private:
  json events() const {
    Columns list({"place", "iteration", "begin", "end"});
    for (const auto &queue : rank.queues)
      for (const TraceEvent *event : queue)
        if (head[*event].role != CommandRole::Wait)
          list.add({event->command, event->iteration, event->begin - origin,
                    event->end - origin});
    return std::move(list.columns);
  }
  /// Of a collective, its own time beside no computation.
  json exposed() const {
    Columns list({"place", "begin", "end", "why", "for"});
    for (const CollectiveRun &run : rank.collectives)
      for (const Idle &idle : run.exposed)
        list.add({run.event->command, idle.span.first - origin,
                  idle.span.second - origin,
                  trace::kCauseNames[size_t(idle.cause)],
                  placeOf(idle.command)});
    return std::move(list.columns);
  }
  /// Of a collective, the time until its last member came.
  json late() const {
    Columns list({"place", "begin", "end", "rank"});
    for (const CollectiveRun &run : rank.collectives)
      if (run.peer > 0)
        list.add({run.event->command, run.event->begin - origin,
                  run.event->begin + run.peer - origin, run.lastPeer});
    return std::move(list.columns);
  }
  json idle() const {
    Columns list({"begin", "end", "why", "for"});
    for (const Idle &entry : rank.idle)
      list.add({entry.span.first - origin, entry.span.second - origin,
                trace::kCauseNames[size_t(entry.cause)],
                placeOf(entry.command)});
    return std::move(list.columns);
  }

  const TimelineHead &head;
  const RankStep &rank;
  const int64_t origin;
};
} // namespace

Expected<std::string> printStep(const Timeline &timeline,
                                const PictureOptions &options) {
  const TimelineHead &head = timeline.head;
  std::vector<trace::StepRun> steps = trace::analyse(timeline);
  Expected<trace::ChosenStep> chosen = trace::choose(steps, options);
  if (!chosen.ok())
    return chosen.status();
  const trace::StepRun &step = *chosen->step;
  json result = {{"program", head.program},
                 {"predicted_from", head.predictedFrom},
                 {"step", step.step},
                 {"complete", step.isComplete},
                 {"seconds", double(trace::lengthOf(step.span)) * 1e-9},
                 {"queues", json::array()},
                 {"commands", json::array()},
                 {"ranks", json::array()}};
  for (const Queue &queue : head.queues)
    result["queues"].push_back(
        {{"name", queue.name},
         {"role", trace::kRoleNames[size_t(queue.role)]}});
  for (const std::vector<TimelineCommand> &program : head.rankPrograms) {
    result["commands"].push_back(json::array());
    for (const TimelineCommand &command : program)
      result["commands"].back().push_back(describe(head, command));
  }
  for (const RankStep *rank : chosen->ranks)
    result["ranks"].push_back(RankWriter(head, *rank, step.span.first).write());
  return trace::toText(result);
}

} // namespace tandem::rt
