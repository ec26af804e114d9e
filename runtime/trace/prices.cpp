//===- prices.cpp - prices of commands ------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "trace/prices.h"
#include "core/text.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>

namespace tandem::rt::trace {

namespace {
using Table = CommandTimes::Table;

const double *find(const Table &table, uint32_t rankProgram, uint32_t id) {
  if (rankProgram >= table.size())
    return nullptr;
  auto it = table[rankProgram].find(id);
  return it == table[rankProgram].end() ? nullptr : &it->second;
}

const Table &tableOf(const CommandTimes &prices,
                     const TimelineCommand &command) {
  return command.role == CommandRole::Communicate ? prices.collectives
                                                  : prices.seconds;
}

Status checkNumbers(const Table &table) {
  for (const auto &entries : table)
    for (auto [id, seconds] : entries)
      if (!std::isfinite(seconds) || seconds < 0)
        return errorOf("has ", seconds, " s for command ", id,
                       ", expected at least 0");
  return Status::success();
}

/// That nothing is taken for free by mistake.
Status checkAll(const TimelineHead &head, const CommandTimes &prices) {
  for (uint32_t program = 0; program < head.rankPrograms.size(); ++program)
    for (const TimelineCommand &command : head.rankPrograms[program]) {
      bool isCollective = command.role == CommandRole::Communicate;
      bool isCheck = isCollective && command.kind.starts_with("check_");
      if (isCheck || (!isCollective && command.role != CommandRole::Compute) ||
          find(tableOf(prices, command), program, command.id))
        continue;
      return errorOf("has no seconds of command ", command.id, " '",
                     command.name, "', expected all ",
                     isCollective ? "collectives, as tandem-profile --price "
                                    "writes them"
                                  : "computing commands");
    }
  return Status::success();
}

Status check(const TimelineHead &head, const CommandTimes &prices) {
  if (prices.program != head.program)
    return errorOf("is for program ", prices.program, ", expected ",
                   head.program);
  if (prices.seconds.size() != head.rankPrograms.size())
    return errorOf("has ", prices.seconds.size(), " rank programs, expected ",
                   head.rankPrograms.size());
  for (const Table *table :
       {&prices.seconds, &prices.collectives, &prices.latency})
    if (Status status = checkNumbers(*table); !status.ok())
      return status;
  for (double slowdown : {prices.computationSlowdown, prices.collectiveSlowdown,
                          prices.copySlowdown})
    if (!std::isfinite(slowdown) || slowdown < 1)
      return errorOf("has a slowdown of ", slowdown, ", expected at least 1");
  return checkAll(head, prices);
}
} // namespace

double secondsOf(const CommandTimes &prices, uint32_t rankProgram,
                 const TimelineCommand &command) {
  const double *found = find(tableOf(prices, command), rankProgram, command.id);
  return found ? *found : 0;
}

double latencyOf(const CommandTimes &prices, uint32_t rankProgram,
                 const TimelineCommand &command) {
  const double *found = find(prices.latency, rankProgram, command.id);
  return found ? *found : 0;
}

Status settlePrices(const TimelineHead &head, CommandTimes &prices) {
  if (Status status = check(head, prices); !status.ok())
    return status;
  double &a = prices.computationSlowdown, &b = prices.collectiveSlowdown;
  if (1 / a + 1 / b <= 1)
    a = b = 2;
  if (prices.from.empty())
    prices.from = "a table";
  return Status::success();
}

Expected<bool> isPrices(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return errorOf("cannot read '", path, "': ", std::strerror(errno));
  // A timeline says what it is before anything else; it may be long.
  std::string begin(4096, 0);
  file.read(begin.data(), std::streamsize(begin.size()));
  begin.resize(size_t(file.gcount()));
  return begin.find("\"tandem\"") == begin.npos &&
         begin.find("\"traceEvents\"") == begin.npos;
}

std::vector<int64_t> groupOf(const TimelineHead &head,
                             const std::vector<uint32_t> &axes, int64_t rank) {
  std::vector<int64_t> members = {rank};
  int64_t stride = 1;
  for (size_t axis = head.mesh.size(); axis-- > 0;) {
    int64_t size = head.mesh[axis].size;
    if (std::find(axes.begin(), axes.end(), axis) != axes.end()) {
      std::vector<int64_t> next;
      for (int64_t member : members)
        for (int64_t point = 0; point < size; ++point)
          next.push_back(member + (point - rank / stride % size) * stride);
      members = std::move(next);
    }
    stride *= size;
  }
  std::sort(members.begin(), members.end());
  return members;
}

} // namespace tandem::rt::trace
