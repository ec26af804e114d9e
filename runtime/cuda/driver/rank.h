//===- rank.h - the commands of a rank on a GPU -----------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CUDA_DRIVER_RANK_H
#define TANDEM_RT_CUDA_DRIVER_RANK_H

#include "cuda/driver/work.h"

namespace tandem::rt::cuda {

/// A stream, destroyed with this.
class Stream {
public:
  /// With `isFirst`, what is ready in it begins before what is ready in others.
  static Expected<Stream> create(std::shared_ptr<Gpu> gpu,
                                 bool isFirst = false);
  Stream() = default;
  Stream(Stream &&other) noexcept;
  Stream &operator=(Stream &&other) noexcept;
  ~Stream();
  CUstream get() const { return stream; }

private:
  std::shared_ptr<Gpu> gpu;
  CUstream stream = nullptr;
};

/// An event, destroyed with this.
class Event {
public:
  static Expected<Event> create(std::shared_ptr<Gpu> gpu, bool isTimed = false);
  Event() = default;
  Event(Event &&other) noexcept;
  Event &operator=(Event &&other) noexcept;
  ~Event();
  CUevent get() const { return event; }

private:
  std::shared_ptr<Gpu> gpu;
  CUevent event = nullptr;
};

/// A command of the listing, with what it needs.
struct Entry {
  const Command *command;
  /// What it does, one after the other; null: nothing. Where ranks here do a
  /// thing together, `work` comes when all have done `before`, and `after` when
  /// all have done `work`.
  std::unique_ptr<Work> before = {}, work = {}, after = {};
  /// The ranks here that do it together, as places; fewer than two: alone.
  std::vector<size_t> together = {};
  /// Of the Repeat around it.
  int64_t count = 1;
  /// The entry of the Repeat around it; its own outside of any.
  size_t repeat = 0;
  /// The arguments that it writes.
  std::vector<uint32_t> writes = {};
  /// Whether other processes take part, and this one has its turn for it
  /// (turns.h).
  bool hasTurn = false;
  /// The command with what it writes redirected, if its work is that.
  std::unique_ptr<Command> redirected = {};
};

/// One rank: its buffers, streams and events, and its listing.
struct Rank {
  Rank(int64_t number, const RankProgram &program, RankMemory memory)
      : number(number), program(program), memory(std::move(memory)) {}

  const int64_t number;
  const RankProgram &program;
  RankMemory memory;
  std::vector<Stream> streams;
  std::vector<Workspace> workspaces; ///< Of the streams.
  std::vector<Event> events;
  /// Around a collective: that this member has come, and that it has done its
  /// share. By queue, as a queue does one after the other.
  std::vector<Event> ready, done;
  std::vector<Entry> entries;
  /// The entries of checks, in their order.
  std::vector<size_t> checks;

  /// Where the step is: an entry, and the iteration of the Repeat around it.
  size_t next = 0;
  int64_t iteration = 0;
  /// Whether it waits for the other members of its group.
  bool isWaiting = false;
  std::vector<bool> begun;

  size_t placeOf(const Command &command) const {
    return streams.size() == 1 ? 0 : command.queue;
  }
  CUstream streamOf(const Command &command) const {
    return streams[placeOf(command)].get();
  }
};

} // namespace tandem::rt::cuda

#endif // TANDEM_RT_CUDA_DRIVER_RANK_H
