//===- cpus.h - CPUs of the ranks of a process ------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CPU_CPUS_H
#define TANDEM_RT_CPU_CPUS_H

#include "tandem_rt/status.h"

#include <cstddef>
#include <optional>
#include <sched.h>
#include <string>
#include <vector>

namespace tandem::rt::cpu {

/// `cpus` by package, core and number: threads of one core are neighbours,
/// which have numbers far apart on most machines. `folder` tells (as
/// /sys/devices/system/cpu does), and numbers alone decide where it does not.
std::vector<int> sortByCore(std::vector<int> cpus, const std::string &folder);

/// The CPUs of number `place` of `ranks` ranks: an equal share of those that
/// the calling thread may use, of whole cores where they divide so. None where
/// they do not divide into equal shares, for a single rank, for a system that
/// does not tell, and where TANDEM_BIND is 0. Fails if it is neither 0 nor 1.
///
/// Queues of a rank wake each other all the time. On a virtual machine Linux
/// takes an idle CPU, which its host has put to sleep, for one that is taken
/// away, and has a thread wait where another rank computes.
Expected<std::optional<cpu_set_t>> cpusOf(size_t place, size_t ranks);

/// The calling thread runs on `cpus` until the end of the scope; where there
/// are none, it runs where it did.
class OnCpus {
public:
  explicit OnCpus(const std::optional<cpu_set_t> &cpus);
  ~OnCpus();
  OnCpus(const OnCpus &) = delete;
  OnCpus &operator=(const OnCpus &) = delete;

private:
  std::optional<cpu_set_t> before = {};
};

} // namespace tandem::rt::cpu

#endif // TANDEM_RT_CPU_CPUS_H
