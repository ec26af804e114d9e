//===- gather_trace.cpp - the timeline of all ranks -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/session_impl.h"
#include "core/text.h"
#include "tandem_rt/machine.h"
#include "tandem_rt/new_file.h"
#include "tandem_rt/timeline.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem::rt {

namespace {
/// Events that travel together.
constexpr size_t kPiece = 4096;

/// What a rank's process says before its events.
struct Part {
  int64_t count = 0;
  int64_t earliest = std::numeric_limits<int64_t>::max();
  int64_t process = 0, offset = 0, error = 0;
  int64_t communication = 0, hidden = 0;
};

/// From a process' clock to that of process 0, along a line where it was read
/// twice: clocks of hosts run apart by some millionths.
class ClockLine {
public:
  ClockLine(const std::optional<ClockReading> &begin,
            const Expected<ClockReading> &end) {
    if (begin || end.ok()) {
      first = begin ? *begin : *end;
      last = end.ok() ? *end : *begin;
      error = std::max(first.error, last.error);
    }
  }
  int64_t offsetAt(int64_t time) const {
    if (last.at <= first.at)
      return last.offset;
    double share = double(time - first.at) / double(last.at - first.at);
    return first.offset + std::llround(std::clamp(share, 0.0, 1.0) *
                                       double(last.offset - first.offset));
  }
  int64_t process() const { return last.process; }
  int64_t offset() const { return last.offset; }
  int64_t getError() const { return error; }

private:
  ClockReading first, last;
  int64_t error = -1;
};

class Gatherer {
public:
  Gatherer(const Place &place, const Program &program, const std::string &hash,
           const Trace &trace, bool alone)
      : place(place), program(program), hash(hash), trace(trace), alone(alone),
        clock(trace.begin,
              alone ? Status::error("alone") : place.fabric->readClock()),
        parts(size_t(program.numRanks())) {}

  Expected<TraceSummary> run(const std::string &path);

private:
  void describeOwn();
  void exchangeParts();
  Status write(const std::string &path);
  void passOn(int64_t rank, TimelineWriter *writer);
  void move(int64_t rank, std::optional<int64_t> to, void *data, size_t bytes);
  TimelineHead makeHead() const;
  void miss(int64_t rank) {
    missing.push_back(
        {rank, failure.ok() ? "its process took no part" : failure.message()});
  }
  bool isWriter() const { return place.find(0).has_value(); }
  TraceSummary summary() const;

  const Place &place;
  const Program &program;
  const std::string &hash;
  const Trace &trace;
  const bool alone;
  const ClockLine clock;
  std::vector<Part> parts;
  std::vector<MissingRank> missing;
  Status failure; ///< Of the fabric: from then on nothing is moved.
};

/// After the first failure nothing: who has failed and who has not yet would no
/// longer move the same.
void Gatherer::move(int64_t rank, std::optional<int64_t> to, void *data,
                    size_t bytes) {
  if (!place.hasAll() && !alone && failure.ok())
    failure = place.fabric->move(rank, to, data, bytes);
}

void Gatherer::describeOwn() {
  std::map<int64_t, HiddenTime> hidden = hiddenTimes(program, trace);
  for (int64_t rank : place.job.ranks)
    parts[size_t(rank)] = {.process = clock.process(),
                           .offset = clock.offset(),
                           .error = clock.getError(),
                           .communication = hidden[rank].communication,
                           .hidden = hidden[rank].hidden};
  for (const TraceEvent &event : trace.events) {
    Part &part = parts[size_t(event.rank)];
    ++part.count;
    part.earliest =
        std::min(part.earliest, event.begin + clock.offsetAt(event.begin));
  }
}

void Gatherer::exchangeParts() {
  describeOwn();
  for (int64_t rank = 0; rank < program.numRanks(); ++rank) {
    move(rank, {}, &parts[size_t(rank)], sizeof(Part));
    if (!place.find(rank) && (alone || !failure.ok())) {
      parts[size_t(rank)] = {};
      miss(rank);
    }
  }
}

/// The events of a rank, from its process to the writer.
void Gatherer::passOn(int64_t rank, TimelineWriter *writer) {
  bool isOwn = place.find(rank).has_value();
  std::vector<TraceEvent> piece;
  size_t next = 0;
  for (int64_t left = parts[size_t(rank)].count; left > 0;) {
    piece.resize(std::min(kPiece, size_t(left)));
    left -= int64_t(piece.size());
    for (size_t i = 0; isOwn && i < piece.size(); ++next) {
      if (trace.events[next].rank != rank)
        continue;
      TraceEvent event = trace.events[next];
      event.begin += clock.offsetAt(event.begin);
      event.end += clock.offsetAt(event.end);
      piece[i++] = event;
    }
    move(rank, 0, piece.data(), piece.size() * sizeof(TraceEvent));
    if (!isOwn && !failure.ok())
      return miss(rank);
    for (const TraceEvent &event : piece)
      if (writer)
        writer->add(event);
  }
}

TimelineHead Gatherer::makeHead() const {
  TimelineHead head = headOf(program, hash);
  head.machine = machineName();
  for (int64_t rank = 0; rank < program.numRanks(); ++rank) {
    const Part &part = parts[size_t(rank)];
    bool isMissing = std::any_of(
        missing.begin(), missing.end(),
        [&](const MissingRank &entry) { return entry.rank == rank; });
    if (isMissing)
      continue;
    auto known =
        std::find_if(head.clocks.begin(), head.clocks.end(), [&](auto &clock) {
          return clock.process == part.process;
        });
    if (known == head.clocks.end())
      known = head.clocks.insert(known,
                                 {part.process, {}, part.offset, part.error});
    known->ranks.push_back(rank);
  }
  return head;
}

Status Gatherer::write(const std::string &path) {
  if (!isWriter()) {
    for (int64_t rank = 0; rank < program.numRanks(); ++rank)
      passOn(rank, nullptr);
    return Status::success();
  }
  int64_t origin = std::numeric_limits<int64_t>::max();
  for (const Part &part : parts)
    origin = std::min(origin, part.earliest);
  TimelineHead head = makeHead();
  NewFile file(path, kTimelineFile);
  TimelineWriter writer(head, file.stream(), origin);
  for (int64_t rank = 0; rank < program.numRanks(); ++rank) {
    // The others are in step with this one whatever its disk says.
    passOn(rank, file.check().ok() ? &writer : nullptr);
  }
  writer.finish(missing);
  return file.finish();
}

TraceSummary Gatherer::summary() const {
  TraceSummary result{.isWriter = isWriter()};
  for (const Part &part : parts) {
    result.time.communication += part.communication;
    result.time.hidden += part.hidden;
    result.numProcesses = std::max(result.numProcesses, part.process + 1);
    if (part.error < 0 || result.clockError < 0)
      result.clockError = -1;
    else
      result.clockError = std::max(result.clockError, part.error);
  }
  return result;
}

Expected<TraceSummary> Gatherer::run(const std::string &path) {
  exchangeParts();
  Status status = write(path);
  if (!alone && failure.ok())
    status = place.fabric->conclude("timeline", status);
  if (!status.ok())
    return status;
  TraceSummary result = summary();
  std::string ranks;
  for (const MissingRank &entry : missing)
    ranks += concat(ranks.empty() ? "" : ", ", entry.rank);
  if (!failure.ok())
    result.lacks = concat("timeline '", path, "' lacks the events of rank ",
                          ranks, ": ", failure.message());
  return result;
}
} // namespace

const Trace &Session::trace() const { return impl->trace; }

void Session::startTrace() {
  impl->trace = {};
  Expected<ClockReading> clock = impl->values().place.fabric->readClock();
  if (clock.ok())
    impl->trace.begin = *clock;
  impl->executor->setTrace(&impl->trace);
}

void Session::stopTrace() { impl->executor->setTrace(nullptr); }

Expected<TraceSummary> Session::writeTrace(const std::string &path,
                                           bool alone) const {
  Use use(impl->values());
  if (Status status = use.status(); !status.ok())
    return status;
  return Gatherer(impl->values().place, impl->program, impl->hash, impl->trace,
                  alone)
      .run(path);
}

} // namespace tandem::rt
