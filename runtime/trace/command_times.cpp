//===- command_times.cpp - seconds of a Program's commands ----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem_rt/command_times.h"
#include "core/text.h"
#include "tandem_rt/machine.h"
#include "tandem_rt/new_file.h"
#include "tandem_rt/timeline.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace tandem::rt {

using nlohmann::json;

bool isComputation(const Command &command) {
  return roleOf(command) == CommandRole::Compute;
}

//===----------------------------------------------------------------------===//
// A table and a Program
//===----------------------------------------------------------------------===//

namespace {
/// A day: no command takes it, and who sleeps longer seems to hang.
constexpr double kMostSeconds = 86400;

Status checkRankProgram(const RankProgram &rankProgram, size_t number,
                        const std::map<uint32_t, double> &seconds) {
  size_t numFound = 0;
  for (const Command *command : rankProgram.listing()) {
    if (!isComputation(*command))
      continue;
    auto found = seconds.find(command->id);
    if (found == seconds.end())
      return errorOf("times have none for ", commandText(*command),
                     ", expected one for each computing command");
    ++numFound;
    if (!(found->second >= 0 && found->second <= kMostSeconds))
      return errorOf("times have ", found->second, " s for ",
                     commandText(*command),
                     ", expected at least 0 and at most ", kMostSeconds);
  }
  if (numFound == seconds.size())
    return Status::success();
  return errorOf("times of rank program ", number, " have ", seconds.size(),
                 " commands, expected its ", numFound, " that compute");
}
} // namespace

Status checkTimes(const Program &program, const std::string &hash,
                  const CommandTimes &times) {
  if (times.program != hash)
    return errorOf("times are of program ", times.program, ", expected ", hash);
  if (times.seconds.size() != program.rankPrograms.size())
    return errorOf("times have ", times.seconds.size(),
                   " rank programs, expected ", program.rankPrograms.size());
  for (size_t i = 0; i < times.seconds.size(); ++i)
    if (Status status =
            checkRankProgram(program.rankPrograms[i], i, times.seconds[i]);
        !status.ok())
      return status;
  return Status::success();
}

namespace {
double takeMedian(std::vector<int64_t> &nanoseconds) {
  auto middle = nanoseconds.begin() + ptrdiff_t(nanoseconds.size() / 2);
  std::nth_element(nanoseconds.begin(), middle, nanoseconds.end());
  return double(*middle) * 1e-9;
}
} // namespace

Expected<CommandTimes> measuredTimes(const Program &program,
                                     const std::string &hash,
                                     const Trace &trace) {
  CommandTimes times{hash, "measured", machineName()};
  std::vector<std::vector<std::vector<int64_t>>> samples;
  for (const RankProgram &rankProgram : program.rankPrograms)
    samples.emplace_back(rankProgram.listing().size());
  for (const TraceEvent &event : trace.events)
    samples[program.rankToProgram[size_t(event.rank)]][event.command].push_back(
        event.end - event.begin);
  for (size_t number = 0; number < samples.size(); ++number) {
    auto listing = program.rankPrograms[number].listing();
    auto &seconds = times.seconds.emplace_back();
    for (size_t i = 0; i < listing.size(); ++i) {
      if (!isComputation(*listing[i]))
        continue;
      if (samples[number][i].empty())
        return errorOf("no step of rank program ", number,
                       " was traced, expected one here");
      seconds[listing[i]->id] = takeMedian(samples[number][i]);
    }
  }
  return times;
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

namespace {
Status failToRead(const std::string &path, const std::string &reason) {
  return errorOf("cannot read times of '", path, "': ", reason);
}

/// {"4": 0.00123}
std::optional<std::map<uint32_t, double>> readSeconds(const json &entry) {
  if (!entry.is_object())
    return std::nullopt;
  std::map<uint32_t, double> seconds;
  for (const auto &[key, value] : entry.items()) {
    uint32_t id = 0;
    auto [end, code] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (code != std::errc() || end != key.data() + key.size() ||
        !value.is_number())
      return std::nullopt;
    seconds[id] = value.get<double>();
  }
  return seconds;
}

/// A list with an object per rank program; absent: empty, unless it has to be
/// there.
std::optional<CommandTimes::Table> readTable(const json &root, const char *key,
                                             bool isNeeded) {
  if (!root.contains(key))
    return isNeeded ? std::nullopt : std::optional(CommandTimes::Table());
  if (!root[key].is_array())
    return std::nullopt;
  CommandTimes::Table table;
  for (const json &entry : root[key]) {
    auto seconds = readSeconds(entry);
    if (!seconds)
      return std::nullopt;
    table.push_back(std::move(*seconds));
  }
  return table;
}

double readSlowdown(const json &root, const char *key) {
  json value = root.value("slowdowns", json::object());
  return value.is_object() && value.contains(key) && value[key].is_number()
             ? value[key].get<double>()
             : 1;
}

json tableToJson(const CommandTimes::Table &table) {
  json list = json::array();
  for (const auto &seconds : table) {
    json entry = json::object();
    for (auto [id, value] : seconds)
      entry[std::to_string(id)] = value;
    list.push_back(std::move(entry));
  }
  return list;
}
} // namespace

Expected<CommandTimes> readTimes(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return failToRead(path, std::strerror(errno));
  json root;
  try {
    root = json::parse(file, nullptr, /*allow_exceptions=*/false);
  } catch (const std::ios_base::failure &) { // of the stream's buffer
    return failToRead(path, "found a folder or a damaged disk, expected a file "
                            "that can be read");
  }
  for (const char *key : {"program", "from"})
    if (!root.is_object() || !root.contains(key) || !root[key].is_string())
      return failToRead(path,
                        concat("expected an object with the text '", key, "'"));
  auto seconds = readTable(root, "seconds", true);
  auto collectives = readTable(root, "collectives", false);
  auto latency = readTable(root, "latency", false);
  if (!seconds || !collectives || !latency)
    return failToRead(path,
                      concat("expected '",
                             !seconds       ? "seconds"
                             : !collectives ? "collectives"
                                            : "latency",
                             "' to be a list with an object per rank program, "
                             "from ids of commands to seconds"));
  json machine = root.value("machine", json(""));
  return CommandTimes{root["program"],
                      root["from"],
                      machine.is_string() ? machine.get<std::string>() : "",
                      std::move(*seconds),
                      std::move(*collectives),
                      std::move(*latency),
                      readSlowdown(root, "computation"),
                      readSlowdown(root, "collectives"),
                      readSlowdown(root, "copies")};
}

Status writeTimes(const CommandTimes &times, const std::string &path) {
  json root = {{"program", times.program},
               {"from", times.from},
               {"machine", times.machine},
               {"seconds", tableToJson(times.seconds)}};
  if (!times.collectives.empty()) {
    root["collectives"] = tableToJson(times.collectives);
    root["latency"] = tableToJson(times.latency);
    root["slowdowns"] = {{"computation", times.computationSlowdown},
                         {"collectives", times.collectiveSlowdown},
                         {"copies", times.copySlowdown}};
  }
  NewFile file(path, kTimesFile);
  file.stream() << root.dump(-1, ' ', false, json::error_handler_t::replace)
                << '\n';
  return file.finish();
}

} // namespace tandem::rt
