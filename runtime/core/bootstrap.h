//===- bootstrap.h - rank and job of a process ------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_BOOTSTRAP_H
#define TANDEM_RT_CORE_BOOTSTRAP_H

#include "tandem_rt/status.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace tandem::rt {

/// As torchrun says it: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT.
/// Without any of them: one process. Here a rank is that of a process, which
/// may have several ranks of a mesh.
struct Rendezvous {
  int64_t rank = 0;
  int64_t worldSize = 1;
  int64_t localRank = 0;
  std::string masterAddress = "127.0.0.1";
  int64_t masterPort = 29500;
  /// The port belongs to a store of the launcher's.
  bool portIsTaken = false;
  /// How long a process waits for another: TANDEM_TIMEOUT, in seconds.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
  /// What all processes of the job know, and nobody else (secret.h).
  std::string secret = {};
};

/// Null for a variable that is not set, as getenv().
using Environment = std::function<const char *(const char *)>;
const char *environmentOfProcess(const char *name);

/// All but the secret. Takes torchrun's variables; without them those of Open
/// MPI, of PMI (MPICH, Intel MPI) or of Slurm with more than one task.
/// TANDEM_PORT goes before MASTER_PORT, which torchrun's own store may listen
/// on. Without MASTER_ADDR it is the first host of Slurm's list, or this host,
/// if all processes are here.
Expected<Rendezvous> rendezvousFrom(const Environment &environment);
Expected<Rendezvous> rendezvousFromEnvironment();

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_BOOTSTRAP_H
