//===- control.h - control connection ---------------------------*- C++ -*-===//
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
#include "tandem_rt/trace.h"

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

namespace tandem::rt {

class ControlServer;
enum class ControlMessage : uint64_t;

/// A process that is missed, where it is not known which.
inline constexpr int64_t kSomeProcess = -2;

/// One process's end of the control connection. Thread-safe. Nothing here waits
/// longer than the job's timeout.
class Control {
public:
  /// Blocks until all processes have come, or fails on all of them by one
  /// error. `listener` is process 0's, where it has one already. Strangers, who
  /// do not know the job's secret, are refused, and no process hears of them.
  static Expected<std::shared_ptr<Control>> connect(const Rendezvous &job,
                                                    Listener listener = {});
  ~Control();

  /// Says goodbye: who leaves has not died. Fails what comes after. With `why`
  /// this process ends by an error, which is that of all.
  void leave(const std::string &why = "");

  /// The one of this process, by the environment; made when first asked for.
  static Expected<std::shared_ptr<Control>> ofProcess();
  /// Process 0: listens on a free port for ofProcess(), so that the port can be
  /// told to the others in some other way.
  static Expected<int64_t> listenForProcess();
  /// What ofProcess() has made, or null.
  static std::shared_ptr<Control> joined();

  int64_t process() const { return job.rank; }
  int64_t numProcesses() const { return job.worldSize; }
  std::chrono::milliseconds timeout() const { return job.timeout; }
  /// The address of this host towards process 0.
  const std::string &address() const { return localAddress; }
  /// What proves that somebody is of this job.
  const Key &key() const { return jobKey; }

  /// A value for all processes, under a name that is set once.
  void set(const std::string &key, const std::string &value);
  /// Waits until somebody has set it.
  Expected<std::string> get(const std::string &key);
  /// Each process gives a text and gets that of all, by process. All make the
  /// same calls in the same order. Who has it may leave: so have all others.
  Expected<std::vector<std::string>> exchange(const std::string &what,
                                              const std::string &text);
  /// What process 0 gives, on all; the others' is not looked at. They wait for
  /// it as long as process 0 is heard of.
  Expected<std::string> broadcast(const std::string &value);
  /// Asks process 0 for the time, often; the shortest round trip counts, and
  /// half of it is the error.
  Expected<ClockReading> readClock();
  /// Fails alike on all processes if their texts differ.
  Status agree(const std::string &what, const std::string &text);
  /// Each process says how its part of `what` went: `error` is empty, or tells
  /// what it ended with. Fails on all if one of them did not go well.
  Status conclude(const std::string &what, const std::string &error);
  /// Waits until all processes have come to their end, as long as they are
  /// heard of. Fails if one ends by an error.
  Status finish();

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
  /// Whether this process is in a step of the scope. One that goes on for the
  /// timeout after the scope has failed never ends, as nothing in it waits for
  /// others any more: then the process does, so that none is left.
  void setStepping(uint64_t scope, bool stepping);
  /// Makes a scope that failed as new, once all processes call it. Fails when a
  /// process is lost for good. Returns how often the scope has been made new.
  Expected<uint64_t> recover(uint64_t scope);

private:
  explicit Control(const Rendezvous &job);
  Status listen(Listener listener, Deadline deadline);
  Status join(Listener listener);
  std::chrono::milliseconds joinPatience() const;
  Status awaitWelcome();
  Expected<std::string> get(const std::string &key,
                            std::chrono::milliseconds limit);
  Expected<ClockReading> ping();
  Expected<std::vector<std::string>> exchange(const std::string &what,
                                              const std::string &text,
                                              std::chrono::milliseconds limit);
  Status missedIn(const std::string &what, int64_t process,
                  std::chrono::milliseconds limit) const;
  uint64_t nextTurn();
  void run();
  void handle(const std::string &message);
  void take(ControlMessage kind, Unpacker &fields);
  std::vector<std::function<void()>> takeFailure(ControlMessage kind,
                                                 Unpacker &fields);
  void loseServer(bool open);
  void checkSteps();
  bool send(const Packer &message);

  struct Scope {
    std::function<void()> onStop;
    uint64_t epoch = 0;
    bool reported = false;
    Status own = {}; ///< What this process has reported.
    std::optional<Status> verdict = {};
    bool stepping = false;
    std::optional<Deadline> stepDue = {}; ///< Of a step of a failed scope.
  };
  std::vector<std::function<void()>> stopsOfAll() const;
  Status causeOf(const Scope &scope) const;
  bool isStopped(const Scope &scope) const;
  bool isLeaving() const;
  bool hasServerLeft() const;

  const Rendezvous job;
  const Key jobKey;
  std::string localAddress;
  std::unique_ptr<ControlServer> server; ///< Of process 0.
  Socket socket;
  std::mutex sending;

  mutable std::mutex mutex;
  std::condition_variable changed;
  uint64_t numRequests = 0, numExchanges = 0, numScopes = 0;
  std::map<uint64_t, std::string> values; ///< By request.
  /// By request: process 0's time, and this process' when it came.
  std::map<uint64_t, std::pair<int64_t, int64_t>> pongs;
  /// Of exchanges: by turn and process.
  std::map<std::pair<uint64_t, int64_t>, std::string> shared;
  std::map<uint64_t, Scope> scopes;
  std::set<int64_t> lost, left;
  std::optional<Status> fatal;
  bool serverLeft = false;
  bool welcome = false, leaving = false;
  std::thread thread;
  std::mutex calling; ///< Held while onStop runs, so that close() can wait.
};

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_CONTROL_H
