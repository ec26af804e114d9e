//===- mailbox.h - rows of messages with a window ---------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_COMM_GLOO_MAILBOX_H
#define TANDEM_RT_COMM_GLOO_MAILBOX_H

#include "comm/gloo/links.h"

#include <algorithm>
#include <deque>
#include <functional>

namespace tandem::rt::gloo {

/// Where the messages of a row go, and how many are under way at once.
struct Row {
  Links &links;
  int64_t peer;
  uint64_t slot;
  size_t count;     ///< Of messages.
  size_t window;    ///< Under way.
  int64_t maxBytes; ///< Of one message.
};

/// Room for the messages of a window; none until it is asked for.
class Ring {
public:
  explicit Ring(const Row &row) : row(row) {}
  char *at(size_t message) {
    if (memory.empty())
      memory.resize(row.window * size_t(row.maxBytes));
    return memory.data() + message % row.window * size_t(row.maxBytes);
  }

private:
  const Row row;
  std::vector<char> memory;
};

struct Piece {
  const char *memory;
  size_t bytes;
};

/// Sends a row of messages.
class Outbox {
public:
  /// `make` gives message k where it lies, or puts it into the room that it can
  /// ask for.
  using Make = std::function<Piece(size_t k, Ring &room)>;
  Outbox(const Row &row, Make make)
      : row(row), ring(row), make(std::move(make)) {}

  Outbox(Outbox &&) = default;

  /// Posts all below `end`; sleeps while the window is full.
  void post(size_t end) {
    for (; posted < std::min(end, row.count); ++posted) {
      if (underWay.size() == row.window)
        awaitOne();
      Piece piece = make(posted, ring);
      underWay.push_back(Message::send(row.links, row.peer, row.slot,
                                       piece.memory, piece.bytes));
      row.links.countSent(piece.bytes);
    }
  }

  /// Until all that were posted have left.
  void awaitAll() {
    while (!underWay.empty())
      awaitOne();
  }

  void finish() {
    post(row.count);
    awaitAll();
  }

private:
  void awaitOne() {
    underWay.front().await();
    underWay.pop_front();
  }

  const Row row;
  Ring ring;
  const Make make;
  size_t posted = 0;
  std::deque<Message> underWay;
};

/// Receives a row of messages.
class Inbox {
public:
  /// `find` says where message k belongs, or puts it into the room.
  struct Room {
    char *memory;
    size_t bytes;
  };
  using Find = std::function<Room(size_t k, Ring &room)>;
  Inbox(const Row &row, Find find)
      : row(row), ring(row), find(std::move(find)) {
    refill();
  }

  Inbox(Inbox &&) = default;

  /// The next message, which stays until refill().
  const char *next() {
    underWay.front().second.await();
    const char *memory = underWay.front().first;
    underWay.pop_front();
    ++taken;
    return memory;
  }

  void refill() {
    for (; posted < std::min(row.count, taken + row.window); ++posted) {
      Room room = find(posted, ring);
      underWay.emplace_back(room.memory,
                            Message::receive(row.links, row.peer, row.slot,
                                             room.memory, room.bytes));
    }
  }

private:
  const Row row;
  Ring ring;
  const Find find;
  size_t posted = 0, taken = 0;
  std::deque<std::pair<const char *, Message>> underWay;
};

} // namespace tandem::rt::gloo

#endif // TANDEM_RT_COMM_GLOO_MAILBOX_H
