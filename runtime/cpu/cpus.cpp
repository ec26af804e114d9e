//===- cpus.cpp - CPUs of the ranks of a process --------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cpu/cpus.h"
#include "core/text.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <tuple>

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

/// Where TANDEM_BIND does not say otherwise.
Expected<bool> areBound() {
  const char *text = std::getenv("TANDEM_BIND");
  std::string_view wanted = text ? text : "";
  if (wanted.empty() || wanted == "1")
    return true;
  if (wanted == "0")
    return false;
  return errorOf("TANDEM_BIND is '", wanted, "', expected 0 or 1");
}
} // namespace

std::vector<int> sortByCore(std::vector<int> cpus, const std::string &folder) {
  auto read = [&](int cpu, const char *name) {
    int number = 0;
    std::ifstream(concat(folder, "/cpu", cpu, "/topology/", name)) >> number;
    return number;
  };
  std::vector<std::tuple<int, int, int>> places;
  for (int cpu : cpus)
    places.push_back(
        {read(cpu, "physical_package_id"), read(cpu, "core_id"), cpu});
  std::sort(places.begin(), places.end());
  for (size_t i = 0; i < cpus.size(); ++i)
    cpus[i] = std::get<2>(places[i]);
  return cpus;
}

Expected<std::optional<cpu_set_t>> cpusOf(size_t place, size_t ranks) {
  Expected<bool> bound = areBound();
  if (!bound.ok())
    return bound.status();
  std::vector<int> cpus = sortByCore(usableCpus(), "/sys/devices/system/cpu");
  if (!*bound || ranks < 2 || cpus.empty() || cpus.size() % ranks)
    return std::optional<cpu_set_t>();
  size_t share = cpus.size() / ranks;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (size_t i = place * share; i < (place + 1) * share; ++i)
    CPU_SET(cpus[i], &set);
  return std::optional(set);
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
