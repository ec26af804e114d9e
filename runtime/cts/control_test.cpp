//===- control_test.cpp - processes that find and lose each other ---------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/fabrics.h"
#include "cts/support.h"

#include <atomic>
#include <barrier>
#include <cstring>
#include <fstream>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace tandem::rt::cts {
namespace {

using namespace std::chrono_literals;

class ControlTest : public testing::Test {
protected:
  Watchdog watchdog{60};
};

TEST_F(ControlTest, ValuesAreForAll) {
  Controls controls = joinAll(3);
  inProcesses(3, [&](int64_t process) {
    Control &own = *controls[size_t(process)];
    EXPECT_EQ(own.process(), process);
    EXPECT_EQ(own.address(), "127.0.0.1");
    if (process == 2) {
      std::this_thread::sleep_for(20ms);
      own.set("key", std::string(100000, 'x'));
    }
    EXPECT_EQ(*own.get("key"), std::string(100000, 'x'));
    EXPECT_EQ(*own.exchange("number", std::to_string(process)),
              (std::vector<std::string>{"0", "1", "2"}));
    EXPECT_EQ(*own.broadcast(process ? "" : std::string(300000, 'y')),
              std::string(300000, 'y'));
    EXPECT_EQ(*own.broadcast(""), "");
    EXPECT_OK(own.agree("hash", "same"));
    expectError(own.agree("hash", process == 1 ? "a" : "b"),
                "process 1 has hash a, expected b as process 0");
    EXPECT_OK(own.conclude("part", ""));
    expectError(own.conclude("part", process == 1 ? "error: late" : ""),
                "process 1 ended with error: late");
    EXPECT_OK(own.finish());
  });
}

/// Whoever has a text may go: the others have it as well.
TEST_F(ControlTest, WhoLeavesBehindAnExchangeIsNotMissed) {
  for (int round = 0; round < 20; ++round) {
    Controls controls = joinAll(3);
    inProcesses(3, [&](int64_t process) {
      Control &own = *controls[size_t(process)];
      EXPECT_OK(own.exchange("number", "").status());
      EXPECT_EQ(*own.broadcast(process ? "" : "value"), "value");
      own.leave();
    });
  }
}

TEST_F(ControlTest, WhoDoesNotComeToAnExchangeIsNamed) {
  Controls controls = joinAll(3, 500ms);
  std::barrier bothKnow(2);
  inProcesses(2, [&](int64_t process) {
    Control &own = *controls[size_t(process)];
    expectError(own.exchange("number", "").status(),
                "process 2 has not come to the exchange of number within 500");
    bothKnow.arrive_and_wait();
    if (process == 1)
      controls[2]->leave();
    expectError(own.exchange("number", "").status(),
                "process 2 has left the job; missed in the exchange of number");
  });
}

/// At once, and also to who only waits for what is said later.
TEST_F(ControlTest, AnErrorThatEndsAProcessIsThatOfAll) {
  for (int64_t victim : {1, 0}) {
    Controls controls = joinAll(3);
    for (auto &control : controls)
      control->open([] {});
    auto begin = Clock::now();
    inProcesses(3, [&](int64_t process) {
      Control &own = *controls[size_t(process)];
      if (process == victim)
        return own.leave("TypeError: no number");
      Status status = own.finish();
      std::string text = status.message();
      EXPECT_EQ(text.find("process " + std::to_string(victim) + " (pid "), 0u)
          << text;
      expectError(status, " ended with TypeError: no number; missed in the");
      EXPECT_TRUE(own.isStopped(0));
      expectError(own.verdict(0), " ended with TypeError: no number");
    });
    EXPECT_LT(Clock::now() - begin, 20s);
  }
}

TEST_F(ControlTest, AProcessThatNeverComesIsNamedByAll) {
  Expected<Listener> listener = listenHere();
  int64_t port = listener->port();
  auto begin = Clock::now();
  inProcesses(2, [&](int64_t process) {
    expectError(join(process * 2, 3, port, 3s,
                     process ? Listener() : std::move(*listener)),
                "2 of 3 processes came within 3000 ms, missing: 1");
  });
  EXPECT_LT(Clock::now() - begin, 20s);
}

TEST_F(ControlTest, OtherWorldSizesAreOneErrorForAll) {
  Expected<Listener> listener = listenHere();
  int64_t port = listener->port();
  inProcesses(2, [&](int64_t process) {
    expectError(join(process, 2 + process, port, 30s,
                     process ? Listener() : std::move(*listener)),
                "has world size 3, expected 2 as process 0");
  });
}

TEST_F(ControlTest, TwoProcessesOfOneNumberAreAnError) {
  Expected<Listener> listener = listenHere();
  int64_t port = listener->port();
  inProcesses(3, [&](int64_t process) {
    expectError(join(std::min<int64_t>(process, 1), 3, port, 30s,
                     process ? Listener() : std::move(*listener)),
                "there are two processes 1, expected one of each number");
  });
}

/// A job that is started again on its port, or a rank of it: what runs goes on.
TEST_F(ControlTest, WhoComesToACompleteJobIsTurnedAway) {
  int64_t port = 0;
  Controls controls = joinAll(2, 30s, &port);
  auto turnedAway = [&](int64_t process, int64_t processes) {
    Status status = join(process, processes, port, 10s);
    EXPECT_EQ(status.message().find("process " + std::to_string(process)), 0u);
    expectError(status, "a job whose 2 processes have all come");
  };
  for (int round = 0; round < 3; ++round) {
    turnedAway(1, 2);
    turnedAway(3, 4);
    inProcesses(2, [&](int64_t process) {
      Control &own = *controls[size_t(process)];
      EXPECT_EQ(*own.exchange("number", std::to_string(process)),
                (std::vector<std::string>{"0", "1"}));
    });
  }
  inProcesses(2, [&](int64_t process) {
    EXPECT_OK(controls[size_t(process)]->finish());
  });
}

/// Of two ports that connections are given, the first is looked for.
Status connectWhereNobodyListens() {
  int lo = socket(AF_INET, SOCK_DGRAM, 0);
  ifreq up = {};
  std::strcpy(up.ifr_name, "lo");
  up.ifr_flags = IFF_UP;
  std::ofstream range("/proc/sys/net/ipv4/ip_local_port_range");
  if (ioctl(lo, SIOCSIFFLAGS, &up) != 0 || !(range << "40000 40001\n"
                                                   << std::flush))
    return Status::error("no network");
  return Socket::connect("127.0.0.1", 40000, Clock::now() + 2s).status();
}

TEST_F(ControlTest, NoConnectionIsWithItself) {
  pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
      _exit(2);
    Status status = connectWhereNobodyListens();
    _exit(status.message().ends_with(" refused") ? 0 : 1);
  }
  int state = 0;
  waitpid(child, &state, 0);
  if (WEXITSTATUS(state) == 2)
    GTEST_SKIP() << "a process may have no network of its own here";
  EXPECT_EQ(state, 0);
}

TEST_F(ControlTest, APortThatIsTakenIsSaid) {
  Expected<Listener> other = listenHere();
  int64_t port = other->port();
  auto begin = Clock::now();
  inProcesses(2, [&](int64_t process) {
    expectError(join(process, 2, port, 3s),
                process ? "is no process 0 of this job"
                        : "is taken, expected a free one");
  });
  EXPECT_LT(Clock::now() - begin, 20s); // what listens there does not speak
  expectError(join(1, 2, 1), "does not find process 0: cannot reach");
}

/// The first reason counts, and recovery makes all as new, again and again.
TEST_F(ControlTest, TheFirstCauseIsThatOfAll) {
  Controls controls = joinAll(3);
  std::vector<uint64_t> scopes;
  for (auto &control : controls)
    scopes.push_back(control->open([] {}));
  for (int round = 0; round < 3; ++round) {
    controls[2]->report(scopes[2], Status::error("first", ErrorKind::NotTrue));
    inProcesses(3, [&](int64_t process) {
      Control &own = *controls[size_t(process)];
      while (!own.isStopped(0))
        std::this_thread::sleep_for(1ms);
      if (process != 2)
        own.report(0, Status::error("second"));
      EXPECT_EQ(own.verdict(0).message(), "first");
      EXPECT_TRUE(own.verdict(0).isRefusal());
      EXPECT_EQ(*own.recover(0), uint64_t(round + 1));
      EXPECT_FALSE(own.isStopped(0));
      EXPECT_OK(own.verdict(0));
    });
  }
}

TEST_F(ControlTest, WhoWasMissedButLivesGivesTheReport) {
  Controls controls = joinAll(2, 3s);
  for (auto &control : controls)
    control->open([] {});
  controls[0]->report(0, Status::error("rank 1 is late"), 1);
  for (auto &control : controls) {
    while (!control->isStopped(0))
      std::this_thread::sleep_for(1ms);
    EXPECT_EQ(control->verdict(0).message(), "rank 1 is late");
  }
}

TEST_F(ControlTest, WhoLeavesHasNotDied) {
  Controls controls = joinAll(3, 3s);
  for (auto &control : controls)
    control->open([] {});
  controls[2]->leave();
  std::this_thread::sleep_for(500ms);
  EXPECT_FALSE(controls[0]->isStopped(0));
  EXPECT_FALSE(controls[0]->isLost(2));
  controls[0]->report(0, Status::error("rank 2 is missing"), 2);
  while (!controls[1]->isStopped(0))
    std::this_thread::sleep_for(1ms);
  std::string text = controls[1]->verdict(0).message();
  EXPECT_EQ(text.find("process 2 (pid "), 0u) << text;
  EXPECT_NE(text.find(" has left the job; missed in rank 2 is missing"),
            std::string::npos)
      << text;
}

/// What it has given may still be read.
TEST_F(ControlTest, ProcessZeroThatLeavesStopsNothing) {
  Controls controls = joinAll(2, 3s);
  std::atomic<int> numStops = 0;
  for (auto &control : controls)
    control->open([&] { ++numStops; });
  controls[0]->leave();
  expectError(controls[1]->exchange("number", "").status(),
              "process 0 has left the job; missed in the exchange of number");
  std::this_thread::sleep_for(500ms);
  EXPECT_FALSE(controls[1]->isStopped(0));
  EXPECT_FALSE(controls[1]->isLost(0));
  EXPECT_EQ(numStops, 0);
  controls[1]->report(0, Status::error("rank 0 is missing"), 0);
  EXPECT_TRUE(controls[1]->isStopped(0));
  expectError(controls[1]->verdict(0), "process 0 has left the job");
}

} // namespace
} // namespace tandem::rt::cts
