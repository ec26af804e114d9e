//===- Watch.cpp - progress and Ctrl-C of a search ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Search/Watch.h"
#include "tandem/Cost/Plan.h"
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <unistd.h>

using namespace tandem::search;

static volatile std::sig_atomic_t interrupted = 0;
static timespec firstInterrupt;
static unsigned numGuards = 0;

struct InterruptGuard::OldAction {
  struct sigaction action;
};

static void interrupt(int signal) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (!interrupted) {
    interrupted = 1;
    firstInterrupt = now;
    return;
  }
  double seconds = double(now.tv_sec - firstInterrupt.tv_sec) +
                   1e-9 * double(now.tv_nsec - firstInterrupt.tv_nsec);
  if (seconds <= InterruptGuard::kSameInterrupt)
    return;
  std::signal(signal, SIG_DFL);
  raise(signal);
}

InterruptGuard::InterruptGuard() {
  if (numGuards++ > 0)
    return;
  old = new OldAction;
  interrupted = 0;
  struct sigaction action = {};
  action.sa_handler = interrupt;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &old->action);
}

InterruptGuard::~InterruptGuard() {
  --numGuards;
  if (!old)
    return;
  sigaction(SIGINT, &old->action, nullptr);
  delete old;
}

bool InterruptGuard::isInterrupted() { return interrupted; }

Watch::Watch(std::function<bool()> ends)
    : ends(std::move(ends)), isTerminal(isatty(STDERR_FILENO)) {}

Watch::~Watch() {
  if (isShown)
    fputc('\n', stderr);
}

static std::string print(const char *name, double seconds) {
  return std::string(", ") + name + " " +
         (std::isfinite(seconds) && seconds > 0
              ? tandem::cost::printSeconds(seconds)
              : "none yet");
}

bool Watch::show(double done, double best, double bound) {
  most = std::max(most, done);
  if (best > 0)
    least = std::min(least, best);
  highest = std::max(highest, bound);
  if (isTerminal && Clock::now() - last >= std::chrono::seconds(1)) {
    last = Clock::now();
    isShown = true;
    fprintf(stderr, "\rsearch %3.0f %%%s%s   ", 100 * most,
            print("best", least).c_str(), print("bound", highest).c_str());
  }
  return !ends || !ends();
}
