//===- read.cpp - reading timelines ---------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Events are taken out while the text is read: they are never in memory as
// JSON.
//
//===----------------------------------------------------------------------===//

#include "tandem_rt/timeline.h"
#include "trace/json.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <unordered_map>

namespace tandem::rt {

using trace::Fields;
using trace::json;

namespace {
constexpr double kNanosPerMicro = 1000.0;
/// What nanoseconds as doubles hold exactly: a hundred days.
constexpr double kLongestMicros = 0x1p53 / kNanosPerMicro;
constexpr int64_t kMaxRanks = int64_t(1) << 20;
constexpr int64_t kMaxId = std::numeric_limits<uint32_t>::max();

class TimelineReader {
public:
  explicit TimelineReader(std::string name) : name(std::move(name)) {}
  Expected<Timeline> read(std::istream &in);

private:
  bool take(int depth, json::parse_event_t event, json &value);
  void addEvent(const json &object);
  void readHead(const json &object);
  void readQueues(Fields &fields);
  void readMemory(Fields &fields);
  void readRanks(Fields &fields);
  void readProgram(const json &list);
  void readClock(const json &object);
  void readMissing(const json &list);
  void readEnds(Fields &fields, TimelineCommand &command);
  TimelineCommand readCommand(Fields fields);
  void nameCommands();
  Status fail(const std::string &text) const {
    return errorOf("'", name, "' ", text);
  }

  const std::string name;
  Timeline result;
  std::string section; ///< The key of the outermost object at hand.
  Status status;
};

/// Calls `visit` with each element and its name for errors.
template <typename Visit>
void forEach(const json &list, const char *what, Visit visit) {
  for (size_t i = 0; i < list.size(); ++i)
    visit(list[i], concat(what, " ", i));
}

/// Whether the parser keeps the value.
bool TimelineReader::take(int depth, json::parse_event_t event, json &value) {
  if (event == json::parse_event_t::key && depth == 1)
    section = value.get<std::string>();
  bool isEvent = section == "traceEvents" && depth == 2 &&
                 event == json::parse_event_t::object_end;
  if (isEvent)
    addEvent(value);
  return !isEvent;
}

/// Until the head is known `command` is the id.
void TimelineReader::addEvent(const json &object) {
  if (!status.ok() || !object.contains("ph") || object["ph"] != "X")
    return;
  Fields fields(object, concat("event ", result.events.size()), status);
  Fields own(fields.get("args"),
             concat("event ", result.events.size(), " args"), status);
  TraceEvent event;
  event.rank = fields.number("pid", 0, kMaxRanks);
  event.command = uint32_t(own.number("id", 0, kMaxId));
  event.iteration = uint32_t(own.number("iteration", 0, kMaxIterations));
  event.step = own.number("step");
  double begin = fields.real("ts", 0), length = fields.real("dur", 0);
  if (begin + length > kLongestMicros)
    fields.fail("ts", begin, "less than a hundred days");
  if (!status.ok())
    return;
  event.begin = std::llround(begin * kNanosPerMicro);
  event.end = event.begin + std::llround(length * kNanosPerMicro);
  result.events.push_back(event);
}

void TimelineReader::readQueues(Fields &fields) {
  forEach(fields.list("queues"), "queue",
          [&](const json &object, const std::string &what) {
            Fields own(object, what, status);
            auto role = std::find(trace::kRoleNames.begin(),
                                  trace::kRoleNames.end(), own.text("role"));
            if (role == trace::kRoleNames.end())
              return own.fail("role", own.get("role"),
                              "compute, communication or copy");
            result.head.queues.push_back(
                {QueueRole(role - trace::kRoleNames.begin()), own.text("name"),
                 object.value("yields", json()) == true});
          });
}

void TimelineReader::readEnds(Fields &fields, TimelineCommand &command) {
  bool hasAxis = command.axes.size() == 1 && status.ok();
  int64_t last = hasAxis ? result.head.mesh[command.axes.front()].size - 1 : -1;
  command.from = fields.number("from", 0, last);
  command.to = fields.number("to", 0, last);
  if (status.ok() && command.from == command.to)
    status = errorOf("transfer ", command.id, " goes from point ", command.from,
                     " to itself, expected two points");
}

TimelineCommand TimelineReader::readCommand(Fields fields) {
  TimelineCommand command;
  command.id = uint32_t(fields.number("id", 0, kMaxId));
  command.name = fields.text("name");
  command.kind = fields.text("kind");
  command.source = fields.text("source");
  command.queue = uint32_t(
      fields.number("queue", 0, int64_t(result.head.queues.size()) - 1));
  command.bytes = fields.number("bytes");
  command.flops = fields.number("flops");
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  command.stage = int32_t(fields.number("stage", -kMax, kMax));
  command.strand = int32_t(fields.number("strand", -1, kMax));
  if (fields.has("repeat"))
    command.repeat = fields.number("repeat", 0, kMaxId);
  bool isRecord = command.kind == "record_event";
  if (isRecord || command.kind == "wait_event") {
    command.role = isRecord ? CommandRole::Record : CommandRole::Wait;
    command.event = uint32_t(fields.number("event", 0, kMaxId));
  } else if (command.kind == "repeat") {
    command.role = CommandRole::Repeat;
    command.count = fields.number("count", 1, kMaxIterations);
  } else if (fields.has("axes")) {
    command.role = CommandRole::Communicate;
    int64_t next = 0, end = int64_t(result.head.mesh.size()) - 1;
    for (const json &axis : fields.list("axes")) {
      json entry = {{"axis", axis}};
      Fields own(entry, concat("command ", command.id), status);
      command.axes.push_back(uint32_t(own.number("axis", next, end)));
      next = command.axes.back() + 1;
    }
    if (command.kind == "transfer")
      readEnds(fields, command);
  }
  return command;
}

void TimelineReader::readProgram(const json &list) {
  std::vector<TimelineCommand> &program =
      result.head.rankPrograms.emplace_back();
  std::unordered_map<uint32_t, int> known;
  forEach(list, "command", [&](const json &object, const std::string &what) {
    if (!status.ok())
      return;
    Fields fields(object, what, status);
    program.push_back(readCommand(fields));
    if (status.ok() && known[program.back().id]++)
      fields.fail("id", program.back().id, "one that no other has");
  });
}

/// Older files have none.
void TimelineReader::readMemory(Fields &fields) {
  if (!fields.has("memory"))
    return;
  forEach(fields.list("memory"), "memory",
          [&](const json &object, const std::string &what) {
            Fields own(object, what, status);
            result.head.memory.push_back(
                {own.number("held", 0), own.number("values", 0)});
          });
  size_t count = result.head.memory.size();
  if (count != 0 && count != result.head.rankPrograms.size())
    fields.fail("memory", count,
                concat("one for each of ", result.head.rankPrograms.size(),
                       " rank programs"));
}

/// Ranks, and what they run.
void TimelineReader::readRanks(Fields &fields) {
  int64_t ranks = 1;
  for (const json &axis : fields.list("mesh")) {
    json entry = {
        {"name", axis.is_array() && axis.size() == 2 ? axis[0] : json()},
        {"size", axis.is_array() && axis.size() == 2 ? axis[1] : json()}};
    Fields own(entry, "mesh", status);
    result.head.mesh.push_back(
        {own.text("name"), own.number("size", 1, kMaxRanks / ranks)});
    ranks *= result.head.mesh.back().size;
  }
  readQueues(fields);
  for (const json &program : fields.list("rank_programs"))
    if (program.is_array())
      readProgram(program);
    else
      fields.fail("rank_programs", program, "lists");
  readMemory(fields);
  for (const json &number : fields.list("rank_to_program")) {
    json entry = {{"program", number}};
    Fields own(entry, "rank_to_program", status);
    result.head.rankToProgram.push_back(uint32_t(own.number(
        "program", 0, int64_t(result.head.rankPrograms.size()) - 1)));
  }
  if (result.head.numRanks() != ranks)
    fields.fail("rank_to_program", result.head.numRanks(),
                concat("one for each of ", ranks, " ranks"));
}

void TimelineReader::readClock(const json &object) {
  Fields fields(object, "clock", status);
  TimelineClock clock{.process = fields.number("process")};
  for (const json &rank : fields.list("ranks")) {
    json entry = {{"rank", rank}};
    clock.ranks.push_back(
        Fields(entry, "clock", status).number("rank", 0, kMaxRanks));
  }
  auto nanos = [&](const char *key) {
    double micros = std::clamp(fields.real(key), -0x1p62 / kNanosPerMicro,
                               0x1p62 / kNanosPerMicro);
    return std::llround(micros * kNanosPerMicro);
  };
  clock.offset = nanos("offset_us");
  clock.error = fields.has("error_us") ? nanos("error_us") : -1;
  result.head.clocks.push_back(std::move(clock));
}

void TimelineReader::readHead(const json &object) {
  Fields fields(object, "'tandem'", status);
  int64_t version = fields.number("version");
  if (status.ok() && version != kTimelineVersion)
    status =
        errorOf("is a timeline of version ", version, ", expected version ",
                kTimelineVersion, ": record it again");
  if (!status.ok())
    return;
  result.head.program = fields.text("program");
  if (fields.has("predicted_from"))
    result.head.predictedFrom = fields.text("predicted_from");
  if (fields.has("machine"))
    result.head.machine = fields.text("machine");
  readRanks(fields);
  for (const json &clock : fields.list("clocks"))
    readClock(clock);
}

void TimelineReader::readMissing(const json &list) {
  forEach(list, "missing", [&](const json &object, const std::string &what) {
    Fields fields(object, what, status);
    result.missing.push_back(
        {fields.number("rank", 0, kMaxRanks), fields.text("why")});
  });
}

/// From ids to places.
void TimelineReader::nameCommands() {
  std::vector<std::unordered_map<uint32_t, uint32_t>> places;
  for (const std::vector<TimelineCommand> &program : result.head.rankPrograms) {
    places.emplace_back();
    for (uint32_t place = 0; place < program.size(); ++place)
      places.back()[program[place].id] = place;
  }
  for (size_t i = 0; i < result.events.size() && status.ok(); ++i) {
    TraceEvent &event = result.events[i];
    if (event.rank >= result.head.numRanks()) {
      status = errorOf("event ", i, " is of rank ", event.rank, ", expected ",
                       result.head.numRanks(), " ranks");
      return;
    }
    const auto &known = places[result.head.rankToProgram[size_t(event.rank)]];
    auto it = known.find(event.command);
    if (it == known.end())
      status = errorOf("event ", i, " is of command ", event.command,
                       ", expected one of 'rank_programs'");
    else
      event.command = it->second;
  }
}

Expected<Timeline> TimelineReader::read(std::istream &in) {
  json rest;
  try {
    rest =
        json::parse(in, [&](int depth, json::parse_event_t event, json &value) {
          return take(depth, event, value);
        });
  } catch (const json::parse_error &error) {
    return fail(
        concat("is no whole timeline: it breaks off or is no JSON at byte ",
               error.byte));
  } catch (const json::exception &) {
    return fail("is no timeline: found a number that is too large");
  } catch (const std::ios_base::failure &) { // of the stream's buffer
    return fail("cannot be read to its end, expected a file on a sound disk");
  }
  if (!rest.is_object() || !rest.contains("tandem") ||
      !rest.contains("traceEvents"))
    return fail("is no timeline of Tandem, expected a file of --trace");
  readHead(rest["tandem"]);
  if (status.ok() && rest.contains("missing"))
    readMissing(rest["missing"]);
  if (status.ok())
    nameCommands();
  if (!status.ok())
    return errorOf("'", name, "': ", status.message());
  return std::move(result);
}
} // namespace

Expected<Timeline> parseTimeline(std::istream &in, const std::string &name) {
  return TimelineReader(name).read(in);
}

Expected<Timeline> readTimeline(const std::string &path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return errorOf("cannot read '", path, "': expected a file");
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return errorOf("cannot read '", path, "': ", std::strerror(errno));
  return parseTimeline(file, path);
}

} // namespace tandem::rt
