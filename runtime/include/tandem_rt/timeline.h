//===- timeline.h - timelines as files -----------------------------*- C++
//-*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A timeline says when each command of each rank ran, and what the commands
// are: their queues, events and groups, so that whoever reads it needs no
// Program. As a file it is JSON in Chrome's trace format (chrome://tracing,
// Perfetto), with what is ours under "tandem":
//
//   {"displayTimeUnit": "ms",
//    "tandem": {"version": 1, "program": "<content hash>", "predicted": false,
//               "mesh": [["data", 2]], "queues": [...],
//               "rank_to_program": [0, 0], "rank_programs": [[command, ...]],
//               "clocks": [{"process": 1, "ranks": [1], "offset_us": -3.2,
//                           "error_us": 41}]},
//    "traceEvents": [{"ph": "X", "pid": rank, "tid": queue, "ts": us,
//                     "dur": us, "name": ..., "args": {"id", "step", ...}}],
//    "missing": [{"rank": 3, "why": "..."}]}
//
// Times are on the clock of process 0, and begin at 0.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_TIMELINE_H
#define TANDEM_RT_TIMELINE_H

#include "tandem_rt/trace.h"

#include <iosfwd>

namespace tandem::rt {

/// Readers accept exactly this version of the format.
inline constexpr int64_t kTimelineVersion = 1;

/// What a command does to the time of a rank.
enum class CommandRole : uint8_t {
  Compute,
  Communicate, ///< A collective, a transfer, or a check of a group.
  Record,
  Wait,
  Repeat
};
CommandRole roleOf(const Command &command);

/// What a queue does while such a command runs on it: a computing command of a
/// queue of communication puts pieces of a sum together, and one of a queue of
/// copies moves data between the device and its host.
enum class Activity : uint8_t { Computation, Communication, Copy, None };
Activity activityOf(CommandRole command, QueueRole queue);

/// A command, as far as a timeline says what it is.
struct TimelineCommand {
  uint32_t id = 0;
  std::string name = {};
  std::string kind = {};   ///< Program::kindName().
  std::string source = {}; ///< "model.py:7".
  uint32_t queue = 0;
  int64_t bytes = 0, flops = 0;
  int32_t stage = 0, strand = 0;
  CommandRole role = CommandRole::Compute;
  uint32_t event = 0; ///< Of a record or wait.
  /// Of a collective, a combined check or a transfer.
  std::vector<uint32_t> axes = {};
  int64_t from = -1, to = -1; ///< Of a transfer: points of its axis.
  int64_t count = 1;          ///< Of a Repeat: iterations.
  int64_t repeat = -1;        ///< The id of the Repeat around it.

  bool isTransfer() const { return from >= 0; }
};

/// The letter of the action that a command of a pipeline belongs to, by the
/// begin of its name, "0F3 matmul": section, action, microbatch. F, I, B, W, S
/// (a sum of gradients) or U; else 0.
char actionOf(const TimelineCommand &command);

/// How far a process' clock was put right.
struct TimelineClock {
  int64_t process = 0;
  std::vector<int64_t> ranks = {};
  /// Nanoseconds that were added to its clock, and how wrong that may be; an
  /// error below 0 is not known.
  int64_t offset = 0, error = 0;
};

/// Bytes of a rank of a rank program.
struct TimelineMemory {
  int64_t held = 0;   ///< heldBytes(): allocated for it.
  int64_t values = 0; ///< mostInArenas().
};

struct TimelineHead {
  std::string program = {}; ///< Content hash.
  /// What a prediction was made from; empty: measured.
  std::string predictedFrom = {};
  /// Of process 0, or that a prediction's times were measured on; empty: not
  /// known.
  std::string machine = {};
  std::vector<Axis> mesh = {};
  std::vector<Queue> queues = {};
  std::vector<uint32_t> rankToProgram = {};
  /// By rank program: its listing().
  std::vector<std::vector<TimelineCommand>> rankPrograms = {};
  std::vector<TimelineMemory> memory = {}; ///< Likewise; empty: not known.
  std::vector<TimelineClock> clocks = {};

  int64_t numRanks() const { return int64_t(rankToProgram.size()); }
  const std::vector<TimelineCommand> &commandsOf(int64_t rank) const {
    return rankPrograms[rankToProgram[size_t(rank)]];
  }
  const TimelineCommand &operator[](const TraceEvent &event) const {
    return commandsOf(event.rank)[event.command];
  }
};

/// A rank whose events are not there, or not all.
struct MissingRank {
  int64_t rank = 0;
  std::string why = {};
};

struct Timeline {
  TimelineHead head = {};
  std::vector<TraceEvent> events = {};
  std::vector<MissingRank> missing = {};
};

TimelineHead headOf(const Program &program, const std::string &hash);

/// Writes a timeline event by event: its text is never in memory as a whole.
class TimelineWriter {
public:
  /// Writes what stands before the events. `head` outlives the writer. Times of
  /// events are those since `origin`.
  TimelineWriter(const TimelineHead &head, std::ostream &out,
                 int64_t origin = 0);
  /// Events are left out that take no time worth a slice: records.
  void add(const TraceEvent &event);
  void finish(const std::vector<MissingRank> &missing = {});

private:
  const TimelineHead &head;
  std::ostream &out;
  const int64_t origin;
  bool isFirst = true;
};

void writeTimeline(const Timeline &timeline, std::ostream &out);
Status writeTimeline(const Timeline &timeline, const std::string &path);

/// Reads what writeTimeline() wrote, or another program that kept what is ours.
/// An error names the file. A timeline without events is one.
Expected<Timeline> readTimeline(const std::string &path);
Expected<Timeline> parseTimeline(std::istream &in, const std::string &name);

} // namespace tandem::rt

#endif // TANDEM_RT_TIMELINE_H
