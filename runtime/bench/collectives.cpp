//===- collectives.cpp - benchmark of collectives -------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Every process of a job runs it (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT):
//
//   collective-rate [ranks per process] [bytes] [repetitions]
//
// Process 0 prints, per collective, the median time and the rate at which a
// process sends and receives payload.
//
//===----------------------------------------------------------------------===//

#include "comm/gloo/communicator.h"
#include "core/access.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <thread>

using namespace tandem::rt;

namespace {
struct Bench {
  std::shared_ptr<Fabric> fabric;
  std::vector<std::unique_ptr<Communicator>> communicators;
  int64_t ranks, bytes, repetitions;
  bool prints;
  std::vector<std::vector<char>> sources = {}, results = {};

  void measure(const char *name, const Collective &op) {
    std::vector<double> seconds;
    int64_t before = fabric->bytesSent();
    for (int64_t i = 0; i <= repetitions; ++i) {
      if (i == 1) // the first one warms up
        before = fabric->bytesSent();
      double time = once(op);
      if (i)
        seconds.push_back(time);
    }
    std::sort(seconds.begin(), seconds.end());
    double median = seconds[seconds.size() / 2];
    double sent = double(fabric->bytesSent() - before) / double(repetitions);
    if (prints)
      std::printf("%-14s %9.3f ms  sent %9.0f bytes  %8.1f Mbit/s\n", name,
                  median * 1e3, sent, sent * 8e-6 / median);
  }

  double once(const Collective &op) {
    auto begin = Clock::now();
    std::vector<std::thread> threads;
    for (size_t i = 0; i < communicators.size(); ++i)
      threads.emplace_back([&, i] {
        Status status =
            communicators[i]->run(op, sources[i].data(), results[i].data());
        if (!status.ok()) {
          std::fprintf(stderr, "collective-rate: error: %s\n",
                       status.message().c_str());
          std::_Exit(1);
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
};

int64_t argument(int argc, char **argv, int index, int64_t value) {
  return argc > index ? std::atoll(argv[index]) : value;
}

int fail(const Status &status) {
  std::fprintf(stderr, "collective-rate: error: %s\n",
               status.message().c_str());
  return 1;
}
} // namespace

int main(int argc, char **argv) {
  auto control = Control::ofProcess();
  if (!control.ok())
    return fail(control.status());
  int64_t each = argument(argc, argv, 1, 1);
  int64_t ranks = each * (*control)->numProcesses();
  std::vector<int64_t> own(static_cast<size_t>(each));
  std::vector<int64_t> all(static_cast<size_t>(ranks));
  std::iota(own.begin(), own.end(), each * (*control)->process());
  std::iota(all.begin(), all.end(), 0);
  auto fabric = createGlooFabric(*control, own, ranks);
  if (!fabric.ok())
    return fail(fabric.status());
  Bench bench{*fabric,
              {},
              ranks,
              argument(argc, argv, 2, 4 << 20),
              argument(argc, argv, 3, 5),
              (*control)->process() == 0};
  for (int64_t rank : own) {
    auto communicator = (*fabric)->connect(all, rank, 0);
    if (!communicator.ok())
      return fail(communicator.status());
    bench.communicators.push_back(std::move(*communicator));
    bench.sources.emplace_back(size_t(bench.bytes));
    bench.results.emplace_back(size_t(bench.bytes));
  }
  // `bytes` are those of the whole.
  int64_t side = bench.bytes / 4 / ranks / ranks;
  auto op = [&](CollectiveKind kind, int32_t split, int32_t concat,
                int64_t rows) {
    return Collective{
        kind, {0}, ElementType::F32, {rows, ranks * side}, split, concat,
        {},   {}};
  };
  bench.measure("all-reduce", op(CollectiveKind::AllReduce, -1, -1, ranks));
  bench.measure("reduce-scatter",
                op(CollectiveKind::ReduceScatter, 0, -1, ranks));
  bench.measure("all-gather", op(CollectiveKind::AllGather, -1, 0, 1));
  bench.measure("all-to-all", op(CollectiveKind::AllToAll, 1, 0, ranks));
  bench.measure(
      "all-reduce 4 B",
      {CollectiveKind::AllReduce, {0}, ElementType::F32, {1}, -1, -1, {}, {}});
  return 0;
}
