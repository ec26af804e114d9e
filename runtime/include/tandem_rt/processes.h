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
  /// Fails alike on all if their texts differ.
  Status agree(const std::string &what, const std::string &text);
  /// What process 0 gives, on all. Waits for it as long as process 0 lives.
  Expected<std::string> broadcast(const std::string &value);

private:
  std::shared_ptr<class Control> control;
};

} // namespace tandem::rt

#endif // TANDEM_RT_PROCESSES_H
