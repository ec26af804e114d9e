//===- crew.cpp - threads that share the work of a command ----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cpu/crew.h"
#include "cpu/task.h"

namespace tandem::rt::cpu {

Crew::Crew(int count, const std::optional<cpu_set_t> &cpus) {
  for (int number = 1; number < count; ++number)
    threads.emplace_back([this, number, cpus] { threadMain(number, cpus); });
}

Crew::~Crew() {
  {
    std::lock_guard lock(mutex);
    shutdown = true;
    wake.notify_all();
  }
  for (std::thread &thread : threads)
    thread.join();
}

void Crew::runPart(int part) noexcept {
  try {
    (*work)(part);
  } catch (...) {
    std::lock_guard lock(mutex);
    if (!failure)
      failure = std::current_exception();
  }
}

void Crew::threadMain(int number, const std::optional<cpu_set_t> &cpus) {
  OnCpus here(cpus);
  LibraryThreads one(1);
  uint64_t seen = 0;
  std::unique_lock lock(mutex);
  while (true) {
    wake.wait(lock, [&] { return shutdown || generation != seen; });
    if (shutdown)
      return;
    seen = generation;
    if (number >= parts)
      continue;
    lock.unlock();
    runPart(number);
    lock.lock();
    if (--running == 0)
      done.notify_one();
  }
}

void Crew::run(int count, const std::function<void(int)> &function) {
  std::lock_guard turn(calls);
  LibraryThreads one(1);
  std::unique_lock lock(mutex);
  work = &function;
  parts = count;
  running = count - 1;
  failure = nullptr;
  if (running > 0) {
    ++generation;
    wake.notify_all();
  }
  lock.unlock();
  runPart(0);
  lock.lock();
  done.wait(lock, [&] { return running == 0; });
  if (failure)
    std::rethrow_exception(failure);
}

} // namespace tandem::rt::cpu
