//===- bootstrap.h - who this process is in its job -------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_BOOTSTRAP_H
#define TANDEM_RT_CORE_BOOTSTRAP_H

#include "tandem_rt/status.h"

#include <cstdint>
#include <functional>
#include <string>

namespace tandem::rt {

/// As torchrun says it: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT.
/// Without any of them: one process.
struct Rendezvous {
  int64_t rank = 0;
  int64_t worldSize = 1;
  int64_t localRank = 0;
  std::string masterAddress = "127.0.0.1";
  int64_t masterPort = 29500;
};

/// Null for a variable that is not set, as getenv().
using Environment = std::function<const char *(const char *)>;

/// Takes torchrun's variables; without them those of Open MPI, of PMI
/// (MPICH, Intel MPI) or of Slurm with more than one task.
Expected<Rendezvous> rendezvousFrom(const Environment &environment);
Expected<Rendezvous> rendezvousFromEnvironment();

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_BOOTSTRAP_H
