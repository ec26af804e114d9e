//===- bootstrap.cpp - who this process is in its job ---------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/bootstrap.h"
#include "core/text.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace tandem::rt {

namespace {
/// One launcher's names for the same things.
struct Launcher {
  const char *rank, *worldSize, *localRank;
};

constexpr Launcher kLaunchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    // A Slurm batch script has these as well, with one task: srun sets the
    // step's.
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
};

class Reader {
public:
  explicit Reader(const Environment &environment) : environment(environment) {}

  void read(const char *name, int64_t low, int64_t high, int64_t &value) {
    const char *text = environment(name);
    if (!text || !status.ok())
      return;
    const char *end = text + std::strlen(text);
    auto [stop, error] = std::from_chars(text, end, value);
    if (error != std::errc() || stop != end || value < low || value > high)
      status = errorOf("environment variable ", name, " is '", text,
                       "', expected a number from ", low, " to ", high);
  }

  Status status;

private:
  const Environment &environment;
};
} // namespace

Expected<Rendezvous> rendezvousFrom(const Environment &environment) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  Rendezvous result;
  Reader reader(environment);
  for (const Launcher &launcher : kLaunchers) {
    if (!environment(launcher.rank) || !environment(launcher.worldSize))
      continue;
    reader.read(launcher.worldSize, 1, kMax, result.worldSize);
    reader.read(launcher.rank, 0, result.worldSize - 1, result.rank);
    reader.read(launcher.localRank, 0, kMax, result.localRank);
    break;
  }
  if (const char *address = environment("MASTER_ADDR"))
    result.masterAddress = address;
  reader.read("MASTER_PORT", 1, 65535, result.masterPort);
  if (!reader.status.ok())
    return reader.status;
  return result;
}

Expected<Rendezvous> rendezvousFromEnvironment() {
  return rendezvousFrom([](const char *name) { return std::getenv(name); });
}

} // namespace tandem::rt
