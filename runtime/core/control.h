//===- control.h - what holds the processes of a job together ---*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Every process of a job has one TCP connection to process 0, over which the
// processes find each other, exchange small values, and tell each other the
// first cause of a failure. No data of a step goes this way.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_CONTROL_H
#define TANDEM_RT_CORE_CONTROL_H

#include "core/bootstrap.h"
#include "core/socket.h"

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

namespace tandem::rt {

class ControlServer;

/// One process's end of the control connection. Thread-safe. Nothing here waits
/// longer than the job's timeout.
class Control {
public:
  /// Blocks until all processes have come, or fails on all of them by one
  /// error. `listener` is process 0's, where it has one already.
  static Expected<std::shared_ptr<Control>> connect(const Rendezvous &job,
                                                    Socket listener = {});
  ~Control();

  /// Says goodbye: who leaves has not died. Fails what comes after.
  void leave();

  /// The one of this process, by the environment; made when first asked for.
  static Expected<std::shared_ptr<Control>> ofProcess();
  /// Process 0: listens on a free port for ofProcess(), so that the port can be
  /// told to the others in some other way.
  static Expected<int64_t> listenForProcess();

  int64_t process() const { return job.rank; }
  int64_t numProcesses() const { return job.worldSize; }
  std::chrono::milliseconds timeout() const { return job.timeout; }
  /// The address of this host towards process 0.
  const std::string &address() const { return localAddress; }

  /// A value for all processes, under a name that is set once.
  void set(const std::string &key, const std::string &value);
  /// Waits until somebody has set it.
  Expected<std::string> get(const std::string &key);
  /// Each process gives a text and gets that of all, by process. All make the
  /// same calls in the same order.
  Expected<std::vector<std::string>> exchange(const std::string &what,
                                              const std::string &text);
  /// What process 0 gives, on all; the others' is not looked at. They wait for
  /// it as long as process 0 is heard of.
  Expected<std::string> broadcast(const std::string &value);
  /// Fails alike on all processes if their texts differ.
  Status agree(const std::string &what, const std::string &text);

  /// A scope is what fails and recovers as a whole: a fabric. Scopes have the
  /// same numbers on all processes, as all open them in the same order.
  /// `onStop` is called, from a thread of this class, when the scope fails or a
  /// process is lost.
  uint64_t open(std::function<void()> onStop);
  void close(uint64_t scope);

  /// Tells all processes why the scope fails. With `lost` that a process was
  /// missed: then what became of it is the cause.
  void report(uint64_t scope, const Status &why,
              std::optional<int64_t> lost = {});
  /// The one cause that all processes got, once the scope has failed; waits for
  /// it after report().
  Status verdict(uint64_t scope);
  /// Whether verdict() is an error, or a process is lost. At once.
  bool isStopped(uint64_t scope) const;
  /// Whether a process is gone for good. At once.
  bool isLost(int64_t process) const;
  /// Makes a scope that failed as new, once all processes call it. Fails when a
  /// process is lost for good. Returns how often the scope has been made new.
  Expected<uint64_t> recover(uint64_t scope);

private:
  explicit Control(const Rendezvous &job);
  Status join(Socket listener);
  Status awaitWelcome();
  Expected<std::string> get(const std::string &key,
                            std::chrono::milliseconds limit);
  void run();
  void handle(const std::string &message);
  void loseServer(const std::string &how);
  bool send(const Packer &message);

  struct Scope {
    std::function<void()> onStop;
    uint64_t epoch = 0;
    bool reported = false;
    Status own; ///< What this process has reported.
    std::optional<Status> verdict = {};
  };
  std::vector<std::function<void()>> stopsOfAll() const;

  const Rendezvous job;
  std::string localAddress;
  std::unique_ptr<ControlServer> server; ///< Of process 0.
  Socket socket;
  std::mutex sending;

  mutable std::mutex mutex;
  std::condition_variable changed;
  uint64_t numRequests = 0, numExchanges = 0, numScopes = 0;
  std::map<uint64_t, std::string> values; ///< By request.
  std::map<uint64_t, Scope> scopes;
  std::set<int64_t> lost;
  std::optional<Status> fatal;
  bool welcome = false, leaving = false;
  std::thread thread;
  std::mutex calling; ///< Held while onStop runs, so that close() can wait.
};

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_CONTROL_H
