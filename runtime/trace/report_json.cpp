//===- report_json.cpp - reports as JSON ----------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem_rt/report.h"
#include "trace/json.h"

namespace tandem::rt {

using trace::json;

namespace {
constexpr int64_t kReportVersion = 1;

json describe(const StepTimes &times) {
  return {{"seconds", times.seconds},
          {"computation", times.computation},
          {"communication", times.communication},
          {"hidden", times.hidden},
          {"exposed", times.exposed},
          {"hidden_of_min", times.hiddenOfMin()},
          {"hidden_share", times.hiddenShare()},
          {"idle", times.idle},
          {"waited_for_peers", times.waitedForPeers},
          {"copies", times.copies},
          {"copies_hidden", times.copiesHidden},
          {"copies_exposed", times.copies - times.copiesHidden}};
}

json describe(const StepTimes &times, const std::optional<StepTimes> &other) {
  json result = describe(times);
  if (other)
    result["predicted"] = describe(*other);
  return result;
}

json describe(const CommandName &name) {
  return {{"id", name.id},
          {"rank_program", name.rankProgram},
          {"name", name.name},
          {"kind", name.kind},
          {"source", name.source}};
}

json describe(const std::optional<CommandName> &name) {
  return name ? describe(*name) : json();
}

json describe(const std::vector<WaitReason> &reasons) {
  json list = json::array();
  for (const WaitReason &reason : reasons) {
    json entry = {{"why", reason.why}, {"seconds", reason.seconds}};
    if (reason.command)
      entry.update(describe(*reason.command));
    list.push_back(std::move(entry));
  }
  return list;
}

json describe(const CollectiveReport &entry) {
  json result = describe(entry.command);
  result.update(
      {{"bytes", entry.bytes},
       {"axes", entry.axes},
       {"stage", entry.stage},
       {"strand", entry.strand},
       {"times", entry.times},
       {"seconds", entry.seconds},
       {"hidden", entry.hidden},
       {"exposed", entry.exposed},
       {"waited",
        {{"data", entry.data}, {"link", entry.link}, {"peer", entry.peer}}},
       {"after",
        {{"data", describe(entry.dataFrom)},
         {"link", describe(entry.linkAfter)},
         {"peer", entry.lastPeer < 0 ? json() : json(entry.lastPeer)}}},
       {"exposed_for", describe(entry.exposedFor)}});
  if (entry.predicted)
    result["predicted"] = {
        {"seconds", entry.predicted->seconds},
        {"hidden", entry.predicted->hidden},
        {"exposed", entry.predicted->seconds - entry.predicted->hidden}};
  return result;
}

json describe(const ComputationReport &entry) {
  json result = describe(entry.command);
  result.update({{"times", entry.times}, {"seconds", entry.seconds}});
  if (entry.predicted)
    result["predicted"] = {{"seconds", *entry.predicted}};
  return result;
}
} // namespace

std::string printJson(const Report &report) {
  int64_t error = report.clockError();
  json result = {
      {"version", kReportVersion},
      {"program", report.head.program},
      {"num_ranks", report.head.numRanks()},
      {"clock_error", error < 0 ? json() : json(double(error) * 1e-9)},
      {"predicted_from",
       report.predictedFrom.empty() ? json() : json(report.predictedFrom)},
      {"warning", report.warning.empty() ? json() : json(report.warning)},
      {"pipe_axis", report.pipeAxis.empty() ? json() : json(report.pipeAxis)},
      {"total", describe(report.total, report.predicted)}};
  for (const char *list : {"missing", "steps", "ranks", "points", "edges",
                           "collectives", "commands"})
    result[list] = json::array();
  result["mesh"] = json::object();
  for (const Axis &axis : report.head.mesh)
    result["mesh"][axis.name] = axis.size;
  for (const MissingRank &entry : report.missing)
    result["missing"].push_back({{"rank", entry.rank}, {"why", entry.why}});
  for (const StepReport &entry : report.steps) {
    json step = describe(entry.times);
    step.update({{"step", entry.step}, {"complete", entry.isComplete}});
    result["steps"].push_back(std::move(step));
  }
  for (const RankReport &entry : report.ranks) {
    json rank = describe(entry.times, entry.predicted);
    rank.update({{"rank", entry.rank}, {"idle_for", describe(entry.idleFor)}});
    result["ranks"].push_back(std::move(rank));
  }
  for (const PointReport &entry : report.points) {
    json point = {{"point", entry.point},
                  {"ranks", entry.ranks},
                  {"bubble", entry.bubble},
                  {"idle", entry.idle},
                  {"idle_for", describe(entry.idleFor)},
                  {"in_flight", entry.inFlight}};
    if (entry.predicted)
      point["predicted"] = *entry.predicted;
    if (entry.memory)
      point.update(
          {{"held", entry.memory->held}, {"values", entry.memory->values}});
    result["points"].push_back(std::move(point));
  }
  for (const EdgeReport &entry : report.edges)
    result["edges"].push_back({{"from", entry.from},
                               {"to", entry.to},
                               {"transfers", entry.transfers},
                               {"bytes", entry.bytes}});
  for (const CollectiveReport &entry : report.collectives)
    result["collectives"].push_back(describe(entry));
  for (const ComputationReport &entry : report.computations)
    result["commands"].push_back(describe(entry));
  return trace::toText(result, 1) + "\n";
}

} // namespace tandem::rt
