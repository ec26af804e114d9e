//===- enqueue.h - enqueues a step into streams -----------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_EXECUTOR_ENQUEUE_H
#define TANDEM_RT_CUDA_EXECUTOR_ENQUEUE_H

#include "cuda/driver/turns.h"
#include "cuda/executor/board.h"
#include "cuda/executor/timeline.h"

#include <functional>
#include <map>

namespace tandem::rt::cuda {

/// Puts a step of all ranks into their streams, in the order of the listings,
/// without waiting for any of it. All of it comes behind what is in the first
/// rank's first stream, and that stream is done when all are: so the same calls
/// make a graph where that stream is captured.
class Enqueuer {
public:
  /// What has a turn is put into streams in the order of `turns`.
  Enqueuer(std::shared_ptr<Gpu> gpu, const StatusBoard &board,
           std::vector<std::unique_ptr<Rank>> &ranks, std::vector<Turn> turns)
      : gpu(std::move(gpu)), board(board), ranks(ranks),
        turns(std::move(turns)) {}
  Status prepare();

  struct Hooks {
    /// Makes an error of a command one that names it, if it does not yet.
    std::function<Status(const Rank &, const Entry &, const Status &)> blame;
    /// Null: nobody wants to know.
    StreamTimes *times = nullptr;
    /// Called behind each command with its stream, where given: to wait for it,
    /// so that what it does is its own error.
    std::function<Status(CUstream)> settle = {};
    /// Called before each command, and behind what settles it, where given: to
    /// look at what it reads and writes.
    std::function<Status(const Rank &, const Entry &)> before = {}, behind = {};
    /// Called where all ranks here that do a command together have looked at
    /// it.
    std::function<void(const Entry &)> join = {};
  };
  Status enqueueStep(const Hooks &hooks);

  CUstream origin() const { return ranks.front()->streams.front().get(); }

private:
  /// The ranks of a group that have come to what they do together.
  using Meetings = std::map<std::pair<std::vector<size_t>, uint32_t>, size_t>;

  Status fork();
  Status join();
  Expected<bool> advance(Rank &rank);
  Status enqueue(Rank &rank, Entry &entry);
  Status settle(const Rank &rank, const Entry &entry, Status status) const;
  Status look(const std::function<Status(const Rank &, const Entry &)> &hook,
              const Rank &rank, const Entry &entry) const;
  Status enqueueAlone(Rank &rank, Entry &entry);
  Status meet(Rank &rank, Entry &entry);
  Status takeTurns();
  Status goOnTogether(const Entry &entry);
  Status enqueueTogether(const std::vector<Rank *> &members);
  Status time(const Rank &rank, const Entry &entry,
              const std::function<Status()> &body);
  Status record(const Event &event, CUstream stream) const {
    return gpu->check(gpu->driver.eventRecord(event.get(), stream),
                      "record an event");
  }
  Status wait(CUstream stream, const Event &event) const {
    return gpu->check(gpu->driver.streamWaitEvent(stream, event.get(), 0),
                      "wait for an event");
  }
  template <typename Body> Status forEachOther(Body body) const;

  std::shared_ptr<Gpu> gpu;
  const StatusBoard &board;
  std::vector<std::unique_ptr<Rank>> &ranks;
  Event forked;
  std::vector<Event> joined; ///< Of all streams but the origin.
  Meetings meetings;
  std::vector<Turn> turns;
  size_t nextTurn = 0;
  /// All members here have come to these, whose turn has still to come.
  std::vector<const Entry *> met;
  const Hooks *hooks = nullptr;
};

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_EXECUTOR_ENQUEUE_H
