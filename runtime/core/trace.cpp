//===- trace.cpp - timelines of steps -------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem_rt/trace.h"
#include "core/text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

namespace tandem::rt {

namespace {
using nlohmann::json;

/// Finds the commands that events name.
class Commands {
public:
  explicit Commands(const Program &program) : program(program) {
    for (const RankProgram &rankProgram : program.rankPrograms)
      listings.push_back(rankProgram.listing());
  }
  const Command &operator[](const TraceEvent &event) const {
    return *listings[program.rankToProgram[size_t(event.rank)]][event.command];
  }

private:
  const Program &program;
  std::vector<std::vector<const Command *>> listings;
};

bool isWaiting(const Command &command) {
  return std::holds_alternative<RecordEvent>(command.operation) ||
         std::holds_alternative<WaitEvent>(command.operation);
}

/// Writes the elements of a list, each on its own: a timeline of millions of
/// events need not be in memory as text.
class ListWriter {
public:
  explicit ListWriter(std::ostream &out) : out(out) {}
  void add(const json &element) {
    // Names come from users' files; bytes that are not UTF-8 must not stop us.
    out << (first ? "" : ",")
        << element.dump(-1, ' ', false, json::error_handler_t::replace);
    first = false;
  }

private:
  std::ostream &out;
  bool first = true;
};

json metadata(const char *what, int64_t rank, size_t queue,
              const std::string &name) {
  return {{"ph", "M"},
          {"name", what},
          {"pid", rank},
          {"tid", queue},
          {"args", {{"name", name}}}};
}

json slice(const Command &command, const TraceEvent &event) {
  constexpr double kNanosPerMicro = 1000.0;
  return {{"ph", "X"},
          {"name", command.name},
          {"cat",
           isWaiting(command) ? "wait" : Program::kindName(command.operation)},
          {"pid", event.rank},
          {"tid", size_t(command.queue)},
          {"ts", double(event.begin) / kNanosPerMicro},
          {"dur", double(event.end - event.begin) / kNanosPerMicro},
          {"args",
           {{"id", command.id},
            {"kind", Program::kindName(command.operation)},
            {"step", event.step},
            {"iteration", event.iteration},
            {"bytes", command.bytes},
            {"flops", command.flops},
            {"stage", command.stage},
            {"strand", command.strand},
            {"source", command.location}}}};
}
} // namespace

void writeChromeTrace(const Program &program, const Trace &trace,
                      std::ostream &out) {
  out << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  ListWriter events(out);
  for (int64_t rank = 0; rank < program.numRanks(); ++rank) {
    events.add(metadata("process_name", rank, 0, concat("rank ", rank)));
    for (size_t queue = 0; queue < program.queues.size(); ++queue)
      events.add(
          metadata("thread_name", rank, queue, program.queues[queue].name));
  }
  Commands commands(program);
  for (const TraceEvent &event : trace.events) {
    const Command &command = commands[event];
    // A record takes no time worth a slice.
    if (!std::holds_alternative<RecordEvent>(command.operation))
      events.add(slice(command, event));
  }
  out << "]}";
}

Status writeChromeTrace(const Program &program, const Trace &trace,
                        const std::string &path) {
  std::ofstream file(path, std::ios::binary);
  writeChromeTrace(program, trace, file);
  file << '\n';
  file.close();
  if (!file)
    return errorOf("cannot write '", path, "': ", std::strerror(errno));
  return Status::success();
}

namespace {
using Interval = std::pair<int64_t, int64_t>;

/// Disjoint and ascending.
std::vector<Interval> merge(std::vector<Interval> list) {
  std::sort(list.begin(), list.end());
  std::vector<Interval> merged;
  for (const Interval &interval : list) {
    if (!merged.empty() && interval.first <= merged.back().second)
      merged.back().second = std::max(merged.back().second, interval.second);
    else
      merged.push_back(interval);
  }
  return merged;
}

int64_t length(const std::vector<Interval> &list) {
  int64_t sum = 0;
  for (const Interval &interval : list)
    sum += interval.second - interval.first;
  return sum;
}

int64_t overlap(const std::vector<Interval> &a,
                const std::vector<Interval> &b) {
  int64_t sum = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    int64_t begin = std::max(a[i].first, b[j].first);
    int64_t end = std::min(a[i].second, b[j].second);
    sum += std::max<int64_t>(0, end - begin);
    a[i].second < b[j].second ? ++i : ++j;
  }
  return sum;
}
} // namespace

double hiddenShare(const Program &program, const Trace &trace) {
  struct Busy {
    std::vector<Interval> computation, communication;
  };
  std::map<int64_t, Busy> ranks;
  Commands commands(program);
  for (const TraceEvent &event : trace.events) {
    const Command &command = commands[event];
    if (isWaiting(command))
      continue;
    bool collective = std::holds_alternative<Collective>(command.operation);
    Busy &busy = ranks[event.rank];
    (collective ? busy.communication : busy.computation)
        .push_back({event.begin, event.end});
  }
  int64_t all = 0, hidden = 0;
  for (auto &[rank, busy] : ranks) {
    auto communication = merge(std::move(busy.communication));
    all += length(communication);
    hidden += overlap(communication, merge(std::move(busy.computation)));
  }
  return all ? double(hidden) / double(all) : 0.0;
}

} // namespace tandem::rt
