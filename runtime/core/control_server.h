//===- control_server.h - server of the control connection ------*- C++ -*-===//
//-*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_CONTROL_SERVER_H
#define TANDEM_RT_CORE_CONTROL_SERVER_H

#include "core/bootstrap.h"
#include "core/gate.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>

namespace tandem::rt {

/// What processes and server tell each other: a kind, then its fields.
enum class ControlMessage : uint64_t {
  Hello,   ///< To the server: process, number of processes, about it.
  Welcome, ///< To all, when all have come.
  Refuse,  ///< To all, when they cannot work together: why.
  Set,     ///< Key, value.
  Get,     ///< Request, key.
  Value,   ///< Request, value.
  Share,   ///< To the server: turn, text. To all: turn, process, text.
  Report,  ///< Scope, epoch, kind of error, text, lost process plus one or 0.
  Lost,    ///< To all, at once: process. What it was missed in is awaited.
  Verdict, ///< To all: scope or kAllScopes, epoch, kind of error, text.
  Recover, ///< Scope, epoch.
  Go,      ///< To all: scope, the new epoch.
  Beat,    ///< Both ways: still here.
  Bye,     ///< Both ways: what follows is no death. To the server: an error, or
           ///< nothing.
  Left,    ///< To all: process, which has said Bye.
  Ping,    ///< To the server: a number.
  Pong,    ///< The number, and the server's clock in nanoseconds.
};
inline constexpr const char *kControlPurpose = "control";
inline constexpr uint64_t kAllScopes = ~uint64_t(0);

/// How long a silence may be, and how often a connection that has nothing to
/// say says so: a loss is known well before the job's timeout.
inline std::chrono::milliseconds silenceOf(const Rendezvous &job) {
  return job.timeout * 2 / 3;
}
inline std::chrono::milliseconds beatOf(const Rendezvous &job) {
  return job.timeout / 12;
}
/// Who misses a process says so a moment after it was lost.
inline std::chrono::milliseconds graceOf(const Rendezvous &job) {
  return std::min(job.timeout / 10, std::chrono::milliseconds(300));
}

/// How long a connection may take to prove that it is of the job.
inline std::chrono::milliseconds proofLimitOf(const Rendezvous &job) {
  return std::max(job.timeout / 4, std::chrono::milliseconds(1000));
}

/// Holds the store of the job, and decides which failure was the first. Speaks
/// only with who knows the key. Runs in a thread of its own until it is
/// destroyed.
class ControlServer {
public:
  ControlServer(const Rendezvous &job, const Key &key, Listener listener);
  ~ControlServer();

private:
  struct Peer {
    Socket socket;
    int64_t process = -1; ///< Unknown before its Hello.
    std::string about = {};
    Deadline heard = Clock::now();
    bool gone = false;
  };
  struct Scope {
    uint64_t epoch = 0;
    bool decided = false;
    /// The first report of a lost process, and when it counts.
    std::string missed = {};
    int64_t lost = -1;
    std::optional<Deadline> due = {};
    std::set<int64_t> recovering = {};
  };
  struct Request {
    size_t peer;
    uint64_t number;
    std::string key;
  };

  void run();
  void admitAll();
  void receiveFrom(size_t peer);
  void handle(size_t peer, const std::string &message);
  void hello(size_t peer, Unpacker &fields);
  void report(Unpacker &fields);
  void recover(int64_t process, Unpacker &fields);
  void answer(size_t peer, uint64_t request, const std::string &key);
  void leave(size_t peer);
  void bye(size_t peer, const std::string &why);
  void lose(size_t peer, const std::string &how);
  void refuse(const std::string &why);
  void turnAway(size_t peer, const std::string &who);
  void decide(uint64_t number, Scope &scope, uint64_t kind,
              const std::string &text);
  void decideDue(Deadline now);
  void checkSilence();
  void checkJoined();
  std::string missing() const;
  std::string strangers() const;
  std::string causeOf(const Scope &scope) const;
  void send(Peer &peer, const Packer &message);
  void sendAll(const Packer &message);

  const Rendezvous job;
  const Key key;
  Gate gate;
  const Deadline started = Clock::now();
  Deadline lastBeat = Clock::now();
  std::vector<Peer> peers;
  size_t joined = 0;
  bool complete = false;
  std::string refusal;
  std::map<std::string, std::string> store;
  std::vector<Request> requests;
  std::map<uint64_t, Scope> scopes;
  /// A death: what is said of it, and when, as one may say where it was missed.
  std::string death, fatal;
  std::optional<Deadline> deathDue;
  std::atomic<bool> stopping = false;
  std::thread thread;
};

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_CONTROL_SERVER_H
