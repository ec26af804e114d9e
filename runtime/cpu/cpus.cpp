//===- cpus.cpp - CPUs of the ranks of a process --------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cpu/cpus.h"

#include <cstdlib>
#include <string_view>
#include <vector>

namespace tandem::rt::cpu {

namespace {
/// Those that the calling thread may use; none on a machine with more of them
/// than a set has.
std::vector<int> usableCpus() {
  cpu_set_t usable;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof usable, &usable) != 0)
    return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &usable))
      cpus.push_back(cpu);
  return cpus;
}
} // namespace

std::optional<cpu_set_t> cpusOf(size_t place, size_t ranks) {
  const char *wanted = std::getenv("TANDEM_BIND");
  std::vector<int> cpus = usableCpus();
  bool isRefused = wanted && std::string_view(wanted) == "0";
  if (isRefused || ranks < 2 || cpus.empty() || cpus.size() % ranks)
    return std::nullopt;
  size_t share = cpus.size() / ranks;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (size_t i = place * share; i < (place + 1) * share; ++i)
    CPU_SET(cpus[i], &set);
  return set;
}

OnCpus::OnCpus(const std::optional<cpu_set_t> &cpus) {
  cpu_set_t now;
  if (cpus && sched_getaffinity(0, sizeof now, &now) == 0 &&
      sched_setaffinity(0, sizeof *cpus, &*cpus) == 0)
    before = now;
}

OnCpus::~OnCpus() {
  if (before)
    sched_setaffinity(0, sizeof *before, &*before);
}

} // namespace tandem::rt::cpu
