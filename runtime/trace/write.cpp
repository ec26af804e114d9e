//===- write.cpp - writing timelines --------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/text.h"
#include "tandem_rt/new_file.h"
#include "tandem_rt/timeline.h"
#include "trace/json.h"

namespace tandem::rt {

using trace::json;
using trace::toText;

namespace {
constexpr double kNanosPerMicro = 1000.0;

json describe(const TimelineCommand &command) {
  json result = {{"id", command.id},         {"name", command.name},
                 {"kind", command.kind},     {"queue", command.queue},
                 {"source", command.source}, {"bytes", command.bytes},
                 {"flops", command.flops},   {"stage", command.stage},
                 {"strand", command.strand}};
  if (command.role == CommandRole::Record || command.role == CommandRole::Wait)
    result["event"] = command.event;
  if (command.role == CommandRole::Communicate)
    result["axes"] = command.axes;
  if (command.isTransfer())
    result["from"] = command.from, result["to"] = command.to;
  if (command.role == CommandRole::Repeat)
    result["count"] = command.count;
  if (command.repeat >= 0)
    result["repeat"] = command.repeat;
  return result;
}

json describe(const TimelineClock &clock) {
  json error = nullptr;
  if (clock.error >= 0)
    error = double(clock.error) / kNanosPerMicro;
  return {{"process", clock.process},
          {"ranks", clock.ranks},
          {"offset_us", double(clock.offset) / kNanosPerMicro},
          {"error_us", error}};
}

json describe(const TimelineHead &head) {
  json mesh = json::array(), queues = json::array();
  json programs = json::array(), clocks = json::array();
  json memory = json::array();
  for (const Axis &axis : head.mesh)
    mesh.push_back({axis.name, axis.size});
  for (const Queue &queue : head.queues) {
    queues.push_back({{"name", queue.name},
                      {"role", trace::kRoleNames[size_t(queue.role)]}});
    if (queue.yields)
      queues.back()["yields"] = true;
  }
  for (const std::vector<TimelineCommand> &program : head.rankPrograms) {
    programs.push_back(json::array());
    for (const TimelineCommand &command : program)
      programs.back().push_back(describe(command));
  }
  for (const TimelineMemory &own : head.memory)
    memory.push_back({{"held", own.held}, {"values", own.values}});
  for (const TimelineClock &clock : head.clocks)
    clocks.push_back(describe(clock));
  return {{"version", kTimelineVersion},
          {"program", head.program},
          {"predicted", !head.predictedFrom.empty()},
          {"predicted_from", head.predictedFrom},
          {"machine", head.machine},
          {"mesh", mesh},
          {"queues", queues},
          {"rank_to_program", head.rankToProgram},
          {"rank_programs", programs},
          {"memory", memory},
          {"clocks", clocks}};
}

json metadata(const char *what, int64_t rank, size_t queue,
              const std::string &name) {
  return {{"ph", "M"},
          {"name", what},
          {"pid", rank},
          {"tid", queue},
          {"args", {{"name", name}}}};
}

json slice(const TimelineCommand &command, const TraceEvent &event,
           int64_t origin) {
  bool waits = command.role == CommandRole::Wait;
  return {{"ph", "X"},
          {"name", command.name},
          {"cat", waits ? "wait" : command.kind},
          {"pid", event.rank},
          {"tid", command.queue},
          {"ts", double(event.begin - origin) / kNanosPerMicro},
          {"dur", double(event.end - event.begin) / kNanosPerMicro},
          {"args",
           {{"id", command.id},
            {"kind", command.kind},
            {"step", event.step},
            {"iteration", event.iteration},
            {"bytes", command.bytes},
            {"flops", command.flops},
            {"stage", command.stage},
            {"strand", command.strand},
            {"source", command.source}}}};
}
} // namespace

TimelineWriter::TimelineWriter(const TimelineHead &head, std::ostream &out,
                               int64_t origin)
    : head(head), out(out), origin(origin) {
  out << "{\"displayTimeUnit\":\"ms\",\"tandem\":" << toText(describe(head))
      << ",\"traceEvents\":[";
  auto write = [&](const json &event) {
    out << (isFirst ? "" : ",") << toText(event);
    isFirst = false;
  };
  for (int64_t rank = 0; rank < head.numRanks(); ++rank) {
    write(metadata("process_name", rank, 0, concat("rank ", rank)));
    for (size_t queue = 0; queue < head.queues.size(); ++queue)
      write(metadata("thread_name", rank, queue, head.queues[queue].name));
  }
}

void TimelineWriter::add(const TraceEvent &event) {
  const TimelineCommand &command = head[event];
  if (command.role == CommandRole::Record)
    return;
  out << (isFirst ? "" : ",") << toText(slice(command, event, origin));
  isFirst = false;
}

void TimelineWriter::finish(const std::vector<MissingRank> &missing) {
  out << "]";
  json list = json::array();
  for (const MissingRank &entry : missing)
    list.push_back({{"rank", entry.rank}, {"why", entry.why}});
  if (!missing.empty())
    out << ",\"missing\":" << toText(list);
  out << "}\n";
}

void writeTimeline(const Timeline &timeline, std::ostream &out) {
  int64_t origin = 0;
  for (size_t i = 0; i < timeline.events.size(); ++i)
    origin = i ? std::min(origin, timeline.events[i].begin)
               : timeline.events[i].begin;
  TimelineWriter writer(timeline.head, out, origin);
  for (const TraceEvent &event : timeline.events)
    writer.add(event);
  writer.finish(timeline.missing);
}

Status writeTimeline(const Timeline &timeline, const std::string &path) {
  NewFile file(path, kTimelineFile);
  writeTimeline(timeline, file.stream());
  return file.finish();
}

} // namespace tandem::rt
