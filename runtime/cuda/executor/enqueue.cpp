//===- enqueue.cpp - enqueues a step into streams -------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/executor/enqueue.h"
#include "core/text.h"

#include <algorithm>

namespace tandem::rt::cuda {

/// Calls `body` with each stream that is not the origin, and its number.
template <typename Body> Status Enqueuer::forEachOther(Body body) const {
  size_t number = 0;
  for (const std::unique_ptr<Rank> &rank : ranks)
    for (const Stream &stream : rank->streams)
      if (stream.get() != origin())
        if (Status status = body(stream.get(), number++); !status.ok())
          return status;
  return Status::success();
}

Status Enqueuer::prepare() {
  auto add = [&](Event &event) {
    Expected<Event> made = Event::create(gpu);
    if (made.ok())
      event = std::move(*made);
    return made.status();
  };
  if (Status status = add(forked); !status.ok())
    return status;
  return forEachOther(
      [&](CUstream, size_t) { return add(joined.emplace_back()); });
}

Status Enqueuer::fork() {
  Status status = board.clear(origin());
  if (status.ok())
    status = record(forked, origin());
  if (!status.ok())
    return status;
  return forEachOther(
      [&](CUstream stream, size_t) { return wait(stream, forked); });
}

Status Enqueuer::join() {
  Status status = forEachOther([&](CUstream stream, size_t number) {
    Status done = record(joined[number], stream);
    return done.ok() ? wait(origin(), joined[number]) : done;
  });
  return status.ok() ? board.fetch(origin()) : status;
}

Status Enqueuer::time(const Rank &rank, const Entry &entry,
                      const std::function<Status()> &body) {
  return hooks->times ? hooks->times->around(rank, entry, body) : body();
}

namespace {
Status enqueueIfAny(const std::unique_ptr<Work> &work, CUstream stream,
                    int64_t iteration) {
  return work ? work->enqueue(stream, iteration) : Status::success();
}
} // namespace

Status Enqueuer::enqueueAlone(Rank &rank, Entry &entry) {
  const Operation &op = entry.command->operation;
  CUstream stream = rank.streamOf(*entry.command);
  if (std::holds_alternative<Repeat>(op))
    return Status::success();
  return time(rank, entry, [&] {
    if (const auto *event = std::get_if<RecordEvent>(&op))
      return record(rank.events[event->event], stream);
    if (const auto *event = std::get_if<WaitEvent>(&op))
      return wait(stream, rank.events[event->event]);
    Status status;
    for (const auto *work : {&entry.before, &entry.work, &entry.after})
      if (status.ok())
        status = enqueueIfAny(*work, stream, rank.iteration);
    return status;
  });
}

/// Waits for what is in the stream, if somebody wants that, so that an error is
/// that of this command; and names the command in it.
Status Enqueuer::settle(const Rank &rank, const Entry &entry,
                        Status status) const {
  if (status.ok() && hooks->settle)
    status = hooks->settle(rank.streamOf(*entry.command));
  return status.ok() ? status : hooks->blame(rank, entry, status);
}

/// Names the command in what `hook` finds.
Status
Enqueuer::look(const std::function<Status(const Rank &, const Entry &)> &hook,
               const Rank &rank, const Entry &entry) const {
  Status status = hook ? hook(rank, entry) : Status::success();
  return status.ok() ? status : hooks->blame(rank, entry, status);
}

Status Enqueuer::enqueue(Rank &rank, Entry &entry) {
  rank.begun[rank.next] = true;
  if (entry.together.size() > 1 || entry.hasTurn)
    return meet(rank, entry);
  Status status = look(hooks->before, rank, entry);
  if (status.ok())
    status = settle(rank, entry, enqueueAlone(rank, entry));
  if (status.ok())
    status = look(hooks->behind, rank, entry);
  if (status.ok())
    stepOver(rank.entries, rank.next, rank.iteration);
  return status;
}

/// The last member to come enqueues what all do, or whoever has made it its
/// turn.
Status Enqueuer::meet(Rank &rank, Entry &entry) {
  size_t &present = meetings[{entry.together, entry.command->queue}];
  rank.isWaiting = true;
  if (++present < entry.together.size())
    return Status::success();
  present = 0;
  if (!entry.hasTurn)
    return goOnTogether(entry);
  met.push_back(&entry);
  return takeTurns();
}

/// A turn is what the first of its members here has in front of it.
Status Enqueuer::takeTurns() {
  auto find = [this] {
    return std::ranges::find_if(met, [this](const Entry *entry) {
      size_t place = entry->together.front();
      return nextTurn < turns.size() &&
             turns[nextTurn] == Turn{place, ranks[place]->next};
    });
  };
  Status status;
  for (auto next = find(); status.ok() && next != met.end(); next = find()) {
    const Entry &entry = **next;
    met.erase(next);
    ++nextTurn;
    status = goOnTogether(entry);
  }
  return status;
}

Status Enqueuer::goOnTogether(const Entry &entry) {
  std::vector<Rank *> members;
  for (size_t place : entry.together)
    members.push_back(ranks[place].get());
  Status status;
  auto lookAll = [&](const auto &hook) {
    for (Rank *member : members)
      if (status.ok())
        status = look(hook, *member, member->entries[member->next]);
  };
  lookAll(hooks->before);
  if (hooks->join)
    hooks->join(entry);
  if (status.ok())
    status = enqueueTogether(members);
  for (Rank *member : members)
    status = settle(*member, member->entries[member->next], status);
  lookAll(hooks->behind);
  for (Rank *member : members) {
    member->isWaiting = false;
    if (status.ok())
      stepOver(member->entries, member->next, member->iteration);
  }
  return status;
}

/// Each member waits until all have come to it, does its share, and goes on
/// when all have done theirs.
Status Enqueuer::enqueueTogether(const std::vector<Rank *> &members) {
  Status status;
  auto forEach = [&](auto body) {
    for (Rank *member : members) {
      Entry &entry = member->entries[member->next];
      if (status.ok())
        status = body(*member, entry, member->streamOf(*entry.command));
    }
  };
  forEach([&](Rank &member, Entry &entry, CUstream stream) {
    Status done = enqueueIfAny(entry.before, stream, member.iteration);
    return done.ok() ? record(member.ready[entry.command->queue], stream)
                     : done;
  });
  forEach([&](Rank &member, Entry &entry, CUstream stream) {
    uint32_t queue = entry.command->queue;
    Status done = time(member, entry, [&] {
      for (Rank *other : members)
        if (Status waited = wait(stream, other->ready[queue]); !waited.ok())
          return waited;
      return enqueueIfAny(entry.work, stream, member.iteration);
    });
    return done.ok() ? record(member.done[queue], stream) : done;
  });
  forEach([&](Rank &member, Entry &entry, CUstream stream) {
    for (Rank *other : members)
      if (Status waited = wait(stream, other->done[entry.command->queue]);
          !waited.ok())
        return waited;
    return enqueueIfAny(entry.after, stream, member.iteration);
  });
  return status;
}

/// Whether it has gone on.
Expected<bool> Enqueuer::advance(Rank &rank) {
  bool hasMoved = false;
  while (!rank.isWaiting && rank.next < rank.entries.size()) {
    hasMoved = true;
    Entry &entry = rank.entries[rank.next];
    if (Status status = enqueue(rank, entry); !status.ok())
      return status;
  }
  return hasMoved;
}

Status Enqueuer::enqueueStep(const Hooks &given) {
  hooks = &given;
  meetings.clear();
  met.clear();
  nextTurn = 0;
  for (std::unique_ptr<Rank> &rank : ranks) {
    rank->next = 0;
    rank->iteration = 0;
    rank->isWaiting = false;
  }
  if (Status status = fork(); !status.ok())
    return status;
  bool isDone = false, hasMoved = true;
  while (!isDone) {
    if (!hasMoved)
      return errorOf(
          "internal error: ranks wait for a turn that does not come");
    isDone = true, hasMoved = false;
    for (std::unique_ptr<Rank> &rank : ranks) {
      Expected<bool> moved = advance(*rank);
      if (!moved.ok())
        return moved.status();
      hasMoved |= *moved;
      isDone &= rank->next == rank->entries.size();
    }
  }
  return join();
}

} // namespace tandem::rt::cuda
