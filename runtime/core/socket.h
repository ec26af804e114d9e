//===- socket.h - messages between processes --------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_SOCKET_H
#define TANDEM_RT_CORE_SOCKET_H

#include "tandem_rt/program.h"

#include <chrono>
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
/// many. No call blocks without a deadline, and none raises a signal.
class Socket {
public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor(descriptor) {}
  Socket(Socket &&other) noexcept;
  Socket &operator=(Socket &&other) noexcept;
  ~Socket() { close(); }

  /// Listens on all addresses of this host; port 0 takes any that is free.
  static Expected<Socket> listen(int64_t port);
  /// Tries again until somebody listens there.
  static Expected<Socket> connect(const std::string &host, int64_t port,
                                  Deadline deadline);
  /// One that waits in the queue of a listening socket; may be none.
  Socket accept() const;

  int64_t port() const;
  /// The numeric address of this end, as the other one sees it.
  std::string address() const;
  int get() const { return descriptor; }
  explicit operator bool() const { return descriptor >= 0; }
  void close();

  /// False when the connection is gone, or stuck beyond the deadline.
  bool send(std::string_view message, Deadline deadline) const;

  /// Reads what there is, without waiting, and appends whole messages. False
  /// when the connection is gone or sends what is no message.
  bool receive(std::vector<std::string> &messages);

private:
  int descriptor = -1;
  std::string pending; ///< The begin of a message.
};

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_SOCKET_H
