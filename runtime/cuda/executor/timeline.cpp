//===- timeline.cpp - times of commands -----------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/executor/timeline.h"

#include <chrono>

namespace tandem::rt::cuda {

Status StreamTimes::begin(CUstream stream) {
  Expected<Event> made = Event::create(gpu, true);
  if (!made.ok())
    return made.status();
  epoch = std::move(*made);
  Status status = record(epoch, stream);
  if (status.ok())
    status = gpu->check(gpu->driver.streamSynchronize(stream),
                        "wait for the begin of a timeline");
  epochNanos = std::chrono::nanoseconds(
                   std::chrono::steady_clock::now().time_since_epoch())
                   .count();
  return status;
}

Status StreamTimes::around(const Rank &rank, const Entry &entry,
                           const std::function<Status()> &body) {
  Expected<Event> begin = Event::create(gpu, true);
  Expected<Event> end = Event::create(gpu, true);
  if (!begin.ok() || !end.ok())
    return begin.ok() ? end.status() : begin.status();
  CUstream stream = rank.streamOf(*entry.command);
  Status status = record(*begin, stream);
  if (status.ok())
    status = body();
  if (status.ok())
    status = record(*end, stream);
  timed.push_back({&rank, uint32_t(&entry - rank.entries.data()),
                   uint32_t(rank.iteration), std::move(*begin),
                   std::move(*end)});
  return status;
}

Status StreamTimes::collect(int64_t step, Trace &trace) const {
  for (const Timed &event : timed) {
    int64_t nanos[2] = {};
    for (int i : {0, 1}) {
      float milliseconds = 0;
      const Event &at = i ? event.end : event.begin;
      if (Status status = gpu->check(gpu->driver.eventElapsedTime(
                                         &milliseconds, epoch.get(), at.get()),
                                     "read the time of an event");
          !status.ok())
        return status;
      nanos[i] = epochNanos + int64_t(double(milliseconds) * 1e6);
    }
    trace.events.push_back({event.rank->number, event.command, event.iteration,
                            step, nanos[0], nanos[1]});
  }
  return Status::success();
}

} // namespace tandem::rt::cuda
