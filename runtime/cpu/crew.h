//===- crew.h - threads that share the work of a command --------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CPU_CREW_H
#define TANDEM_RT_CPU_CREW_H

#include "cpu/cpus.h"

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tandem::rt::cpu {

/// The cores of a rank: the thread that calls and `size() - 1` others, which
/// sleep between calls, run on `cpus` and have libraries use one core each.
class Crew {
public:
  explicit Crew(int threads, const std::optional<cpu_set_t> &cpus = {});
  ~Crew();
  Crew(const Crew &) = delete;
  Crew &operator=(const Crew &) = delete;

  int size() const { return int(threads.size()) + 1; }

  /// Calls work(0) to work(parts - 1), `parts` being at most size(), each on a
  /// thread of its own, and waits for all. Calls from several threads wait for
  /// each other. Throws what the first of the parts throws.
  void run(int parts, const std::function<void(int)> &work);

private:
  void threadMain(int number, const std::optional<cpu_set_t> &cpus);
  void runPart(int part) noexcept;

  std::vector<std::thread> threads;
  std::mutex calls; ///< Held by the thread that calls.
  std::mutex mutex;
  std::condition_variable wake, done;
  const std::function<void(int)> *work = nullptr;
  std::exception_ptr failure;
  int parts = 0, running = 0;
  uint64_t generation = 0;
  bool shutdown = false;
};

/// What part number `part` of `parts` has of `count` things: first and end.
inline std::pair<int64_t, int64_t> shareOf(int64_t count, int part, int parts) {
  return {count * part / parts, count * (part + 1) / parts};
}

} // namespace tandem::rt::cpu

#endif // TANDEM_RT_CPU_CREW_H
