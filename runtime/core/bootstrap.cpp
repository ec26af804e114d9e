//===- bootstrap.cpp - rank and job of a process --------------------------===//
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
  /// Processes on this host, and a list of hosts; null where there is none.
  const char *localSize, *hosts;
};

constexpr Launcher kLaunchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", nullptr},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", nullptr},
    // A Slurm batch script has these as well, with one task: srun sets the
    // step's.
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr,
     "SLURM_STEP_NODELIST"},
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

  /// As decimal seconds, from a millisecond to a day.
  void readSeconds(const char *name, std::chrono::milliseconds &value) {
    const char *text = environment(name);
    if (!text || !status.ok())
      return;
    constexpr double kDay = 24 * 60 * 60;
    char *end = nullptr;
    double seconds = std::strtod(text, &end);
    if (end == text || *end || !(seconds >= 1e-3 && seconds <= kDay))
      status = errorOf("environment variable ", name, " is '", text,
                       "', expected seconds from 0.001 to 86400");
    else
      value = std::chrono::milliseconds(int64_t(seconds * 1000));
  }

  /// Where process 0 is, if nobody says.
  void findMaster(const Launcher &launcher, Rendezvous &result) {
    const char *hosts = launcher.hosts ? environment(launcher.hosts) : nullptr;
    if (hosts)
      result.masterAddress = firstHost(hosts);
    int64_t here = result.worldSize;
    if (launcher.localSize)
      read(launcher.localSize, 1, result.worldSize, here);
    if (!hosts && here != result.worldSize && status.ok())
      status = errorOf("environment variable ", launcher.localSize, " is ",
                       here, " of ", result.worldSize,
                       " processes, expected MASTER_ADDR with the host of "
                       "process 0");
  }

  Status status;

private:
  /// Of "node[03-07,9],other": node03.
  static std::string firstHost(std::string_view hosts) {
    size_t end = hosts.find_first_of(",[");
    std::string name(hosts.substr(0, end));
    if (end == hosts.npos || hosts[end] == ',')
      return name;
    std::string_view rest = hosts.substr(end + 1);
    return name.append(rest.substr(0, rest.find_first_of("-,]")));
  }

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
    if (!environment("MASTER_ADDR"))
      reader.findMaster(launcher, result);
    break;
  }
  if (const char *address = environment("MASTER_ADDR"))
    result.masterAddress = address;
  reader.read("MASTER_PORT", 1, 65535, result.masterPort);
  const char *agent = environment("TORCHELASTIC_USE_AGENT_STORE");
  result.portIsTaken =
      agent && agent == std::string_view("True") && !environment("TANDEM_PORT");
  reader.read("TANDEM_PORT", 1, 65535, result.masterPort);
  reader.readSeconds("TANDEM_TIMEOUT", result.timeout);
  if (!reader.status.ok())
    return reader.status;
  return result;
}

const char *environmentOfProcess(const char *name) { return std::getenv(name); }

Expected<Rendezvous> rendezvousFromEnvironment() {
  return rendezvousFrom(environmentOfProcess);
}

} // namespace tandem::rt
