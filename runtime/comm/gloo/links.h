//===- links.h - connections with all other processes -----------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Gloo's pairs, buffers and timeouts; no Gloo type leaves this file and its
// source.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_COMM_GLOO_LINKS_H
#define TANDEM_RT_COMM_GLOO_LINKS_H

#include "core/control.h"

#include <atomic>
#include <set>

namespace tandem::rt::gloo {

/// How a wait ended that should not; caught where this folder meets the rest.
struct Failure {
  Status status;
  std::optional<int64_t> lost; ///< The process that did not answer; some if
                               ///< they were to be connected.
};

/// One connection with each other process. Thread-safe.
class Links {
public:
  /// All processes come here with the same name, once for each.
  static std::shared_ptr<Links> connect(Control &control,
                                        const std::string &name);
  ~Links();

  /// Wakes whoever waits for a message; from now on nobody waits. Returns at
  /// once.
  void stop();
  /// After stop(), or a failure, with messages under way: what peers still send
  /// is not read any more.
  void close();

  /// Bytes of values given to other processes: what messages say beside that
  /// (greetings) is not told.
  void countSent(size_t bytes) { sent += int64_t(bytes); }
  int64_t bytesSent() const { return sent; }

private:
  friend class Message;
  struct Impl;
  explicit Links(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl;
  std::atomic<int64_t> sent = 0;
};

/// A message under way. Those of one direction, peer and slot arrive in the
/// order in which they were posted, at both ends. A message leaves when its
/// receiver has been posted.
class Message {
public:
  /// `memory` belongs to the message until it has been awaited.
  static Message send(Links &links, int64_t peer, uint64_t slot,
                      const void *memory, size_t bytes);
  static Message receive(Links &links, int64_t peer, uint64_t slot,
                         void *memory, size_t bytes);
  Message(Message &&) noexcept;
  Message &operator=(Message &&) noexcept;
  ~Message();

  /// Sleeps until it has left, or arrived. Throws Failure.
  void await();

private:
  friend class Links;
  struct Impl;
  explicit Message(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

/// Keeps writes to closed connections from ending the process, which is what
/// Gloo leaves to its user, for the calling thread.
class WithoutPipeSignal {
public:
  WithoutPipeSignal();
  ~WithoutPipeSignal();

private:
  bool wasBlocked;
};

} // namespace tandem::rt::gloo

#endif // TANDEM_RT_COMM_GLOO_LINKS_H
