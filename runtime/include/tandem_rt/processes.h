//===- processes.h - the processes of a job ---------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_PROCESSES_H
#define TANDEM_RT_PROCESSES_H

#include "tandem_rt/status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tandem::rt {

/// How many processes a launcher has started with this one: WORLD_SIZE, or what
/// srun and mpirun say. Asks nobody.
Expected<int64_t> numProcesses();

/// Process 0: listens on a free port, so that the launcher's own may be used to
/// tell it: as TANDEM_PORT, set before join(), on the others.
Expected<int64_t> listenForProcesses();

/// What they tell each other before they have a Program. Every process makes
/// the same calls in the same order; each blocks until all have, or fails on
/// all.
class Processes {
public:
  /// Waits for all, at most TANDEM_TIMEOUT seconds.
  static Expected<Processes> join();

  /// Its number, from 0.
  int64_t process() const;
  /// Each gives a text and gets that of all, by process.
  Expected<std::vector<std::string>> exchange(const std::string &what,
                                              const std::string &text);
  /// Fails on all if `error` of one of them is not empty: what its part of
  /// `what` ended with.
  Status conclude(const std::string &what, const std::string &error);
  /// What process 0 gives, on all. Waits for it as long as process 0 lives.
  Expected<std::string> broadcast(const std::string &value);

  /// Of a process that has joined; else it does nothing. Waits for all to come
  /// to their end, as long as they live; fails if one of them ends by an error.
  static Status finish();
  /// This process ends by an error, which all others get at once.
  static void leave(const std::string &error);

private:
  std::shared_ptr<class Control> control;
};

} // namespace tandem::rt

#endif // TANDEM_RT_PROCESSES_H
