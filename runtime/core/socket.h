//===- socket.h - messages between processes --------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_SOCKET_H
#define TANDEM_RT_CORE_SOCKET_H

#include "core/keyed_hash.h"
#include "tandem_rt/program.h"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::rt {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

/// Of the steady clock, as it is.
inline int64_t nanosecondsNow() {
  return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
}

/// Milliseconds until then, at least 0, for poll().
int millisecondsUntil(Deadline deadline);

/// Numbers and strings in a row, as both ends of a connection know them.
class Packer {
public:
  Packer &number(uint64_t value);
  Packer &string(std::string_view text);
  const std::string &text() const { return bytes; }

private:
  std::string bytes;
};

/// What is missing reads as 0 or "", and makes ok() false.
class Unpacker {
public:
  explicit Unpacker(std::string_view bytes) : bytes(bytes) {}
  uint64_t number();
  std::string string();
  bool ok() const { return complete; }

private:
  std::string_view take(size_t count);

  std::string_view bytes;
  bool complete = true;
};

/// A TCP socket, closed with this. Of messages: four bytes of length, then as
/// many, then, once sealed, a tag. No call blocks without a deadline, and none
/// raises a signal.
class Socket {
public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor(descriptor) {}
  Socket(Socket &&other) noexcept;
  Socket &operator=(Socket &&other) noexcept;
  ~Socket() { close(); }

  /// Tries again until somebody listens there.
  static Expected<Socket> connect(const std::string &host, int64_t port,
                                  Deadline deadline);
  /// One that waits in the queue of a listening socket; may be none.
  Socket accept() const;

  int64_t port() const;
  /// The numeric address of this end, as the other one sees it.
  std::string address() const;
  /// That of the other end.
  std::string peerAddress() const;
  int get() const { return descriptor; }
  /// The descriptor, which is the caller's from now on.
  int release();
  explicit operator bool() const { return descriptor >= 0; }
  void close();

  /// From now on a message of whom has no `outgoing` key is none: each has a
  /// tag, by its place in the row of all.
  void seal(const Key &outgoing, const Key &incoming);
  /// False when the connection is gone, or stuck beyond the deadline.
  bool send(std::string_view message, Deadline deadline);
  /// Reads what there is, without waiting, but no more than a megabyte, and
  /// appends whole messages. False when the connection is gone or sends what is
  /// no message.
  bool receive(std::vector<std::string> &messages);

  /// Bytes that are no message, before those. False as send().
  bool write(std::string_view bytes, Deadline deadline) const;
  /// Appends `count` bytes, and reads none behind them. False when the
  /// connection is gone, or the deadline has come.
  bool read(size_t count, Deadline deadline, std::string &bytes) const;
  /// What there is of so many bytes, without waiting. False when the connection
  /// is gone.
  bool readSome(size_t count, std::string &bytes) const;

private:
  struct Seal {
    Key key;
    uint64_t count = 0;
    std::string tagOf(std::string_view message);
  };
  bool takeMessages(std::vector<std::string> &messages);

  int descriptor = -1;
  std::string pending; ///< The begin of a message.
  std::optional<Seal> outgoing, incoming;
};

/// Sockets that listen on one port, each on an address of a host's name.
class Listener {
public:
  Listener() = default;
  /// Listens on the addresses of this host that `host` names, for all of it if
  /// there is none: then `host` is that of what stands in front of this host,
  /// or a name that only this host takes for its own. Port 0 takes any that is
  /// free.
  static Expected<Listener> open(const std::string &host, int64_t port,
                                 Deadline deadline);

  int64_t port() const { return sockets.front().port(); }
  std::string address() const { return sockets.front().address(); }
  /// Of this host, for poll().
  std::vector<int> descriptors() const;
  /// One that waits; may be none.
  Socket accept() const;
  explicit operator bool() const { return !sockets.empty(); }

private:
  std::vector<Socket> sockets;
};

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_SOCKET_H
