//===- core_rate.cpp - test for shared cores ------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   core-rate
//
// Multiply-adds of one CPU alone, and of the first two at once: prints how many
// times as fast both are together, and the rates. Two threads of one core share
// its arithmetic units, whatever the machine says of its topology. Of some
// turns the fastest counts, which others disturbed least; about a second.
//
//===----------------------------------------------------------------------===//

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include <sched.h>

namespace {
using Clock = std::chrono::steady_clock;
constexpr auto kTurn = std::chrono::milliseconds(30);
constexpr int kTurns = 15;
/// Enough sums in flight to fill the units of any core of today.
constexpr int kSums = 12;
/// As wide as any CPU's vectors: narrower ones are sums of several.
typedef float Vector __attribute__((vector_size(64)));
#ifdef __x86_64__
#define FOR_EVERY_CPU                                                          \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EVERY_CPU
#endif

/// So many rounds of a multiply-add for each sum.
FOR_EVERY_CPU float compute(int64_t rounds) {
  Vector sums[kSums], factor = Vector{} + 0.5f;
  // All different, or one would stand for all.
  for (int i = 0; i < kSums; ++i)
    sums[i] = Vector{} + float(i + 2);
  for (int64_t round = 0; round < rounds; ++round)
    for (Vector &sum : sums)
      sum = sum * factor + factor;
  float total = 0;
  for (Vector &sum : sums)
    total += sum[0];
  return total;
}

/// Multiply-adds per second of the calling thread, in 10^9, in a turn.
double computeTurn() {
  constexpr int64_t atOnce = 10000;
  int64_t rounds = 0;
  volatile float used = 0;
  auto begin = Clock::now(), end = begin;
  for (; end - begin < kTurn; end = Clock::now(), rounds += atOnce)
    used = used + compute(atOnce);
  std::chrono::duration<double> seconds = end - begin;
  double lanes = sizeof(Vector) / sizeof(float);
  return double(rounds) * kSums * lanes / seconds.count() * 1e-9;
}

std::vector<int> cpus() {
  cpu_set_t set;
  std::vector<int> found;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set))
        found.push_back(cpu);
  return found;
}

/// Of so many CPUs at once, together.
double computeOn(const std::vector<int> &cpus, size_t count) {
  std::vector<double> rates(count);
  std::vector<std::thread> threads;
  std::atomic<size_t> ready = 0;
  for (size_t i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(cpus[i], &set);
      sched_setaffinity(0, sizeof set, &set);
      for (++ready; ready < count;)
        std::this_thread::yield();
      rates[i] = computeTurn();
    });
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    threads[i].join();
    sum += rates[i];
  }
  return sum;
}

} // namespace

int main() {
  std::vector<int> allowed = cpus();
  double alone = 0, both = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    alone = std::max(alone, computeOn(allowed, 1));
    both =
        std::max(both, computeOn(allowed, std::min<size_t>(allowed.size(), 2)));
  }
  std::printf("%.2f times, %.1f and %.1f GFLOP/s\n", both / alone, 2 * alone,
              2 * both);
  return 0;
}
