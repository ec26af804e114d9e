//===- fabrics.cpp - fabrics of tests -------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/fabrics.h"
#include "cts/support.h"

#ifdef TANDEM_GLOO
#include "comm/gloo/communicator.h"
#endif

#include <thread>

namespace tandem::rt::cts {

void inProcesses(int64_t count, const std::function<void(int64_t)> &body) {
  std::vector<std::thread> threads;
  for (int64_t process = 0; process < count; ++process)
    threads.emplace_back(body, process);
  for (std::thread &thread : threads)
    thread.join();
}

Expected<Listener> listenHere() {
  return Listener::open("127.0.0.1", 0, Clock::now() + std::chrono::seconds(5));
}

Status join(int64_t process, int64_t processes, int64_t port,
            std::chrono::milliseconds timeout, Listener listener,
            const std::string &secret) {
  return Control::connect({.rank = process,
                           .worldSize = processes,
                           .masterPort = port,
                           .timeout = timeout,
                           .secret = secret},
                          std::move(listener))
      .status();
}

Controls joinAll(int64_t processes, std::chrono::milliseconds timeout,
                 int64_t *port) {
  Expected<Listener> listener = listenHere();
  EXPECT_OK(listener.status());
  if (port)
    *port = listener->port();
  Rendezvous job{.worldSize = processes,
                 .masterPort = listener->port(),
                 .timeout = timeout,
                 .secret = kSecret};
  Controls controls{size_t(processes)};
  inProcesses(processes, [&](int64_t process) {
    Rendezvous own = job;
    own.rank = process;
    auto made =
        Control::connect(own, process == 0 ? std::move(*listener) : Listener());
    EXPECT_OK(made.status());
    if (made.ok())
      controls[size_t(process)] = *made;
  });
  return controls;
}

#ifdef TANDEM_GLOO
Fabrics glooFabrics(int64_t ranks, int64_t processes, bool neighbours) {
  processes = std::min(ranks, processes);
  Controls controls = joinAll(processes);
  auto processOf = [&](int64_t rank) {
    return neighbours ? rank * processes / ranks : rank % processes;
  };
  Fabrics fabrics{size_t(ranks)};
  inProcesses(processes, [&](int64_t process) {
    std::vector<int64_t> own;
    for (int64_t rank = 0; rank < ranks; ++rank)
      if (processOf(rank) == process)
        own.push_back(rank);
    auto made = createGlooFabric(controls[size_t(process)], own, ranks);
    EXPECT_OK(made.status());
    for (int64_t rank : own)
      if (made.ok())
        fabrics[size_t(rank)] = *made;
  });
  return fabrics;
}
#endif

} // namespace tandem::rt::cts
