//===- gather_test.cpp - one timeline of several processes ----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/registry.h"
#include "cts/fabrics.h"
#include "cts/paired_fabric.h"
#include "cts/small_step.h"
#include "cts/timelines.h"

#include <filesystem>
#include <fstream>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

namespace tandem::rt::cts {
namespace {

/// Two parties, each with two of four ranks.
class GatherTest : public testing::Test {
protected:
  void SetUp() override {
    path = testing::TempDir() + "gather-" + std::to_string(getpid()) + ".json";
    link = std::make_shared<Link>();
    using Made = Expected<std::shared_ptr<Fabric>>;
    Registry::get().fabrics.add(
        "gather",
        {[] { return Status::success(); },
         [this](const Job &job) {
           return Made(std::make_shared<PairedFabric>(link, job.ranks));
         }});
  }
  void TearDown() override { std::filesystem::remove(path); }

  void both(const std::function<void(int64_t)> &body) { inProcesses(2, body); }

  void create() {
    both([&](int64_t party) {
      Job job{4, {2 * party, 2 * party + 1}, "gather"};
      sessions[party] = start(smallStep(4), {.trace = true, .job = job});
    });
    ASSERT_TRUE(sessions[0] && sessions[1]);
  }
  void step() {
    both([&](int64_t party) { EXPECT_OK(sessions[party]->step()); });
  }

  Watchdog watchdog{60};
  std::string path;
  std::shared_ptr<Link> link;
  std::unique_ptr<Session> sessions[2];
};

/// The second party's clock is behind by a second when recording begins, and
/// by two when it ends.
TEST_F(GatherTest, IsOneFileOnOneClock) {
  constexpr int64_t kSecond = 1'000'000'000;
  int64_t readings = 0, first = 0;
  link->clock = [&] {
    int64_t now = nanosecondsNow();
    first = readings ? first : now;
    return ClockReading{1, readings ? first + kSecond : now,
                        ++readings * kSecond, 500 * readings};
  };
  create();
  step();
  step();
  both([&](int64_t party) {
    auto written = sessions[party]->writeTrace(path);
    ASSERT_TRUE(written.ok()) << written.status().message();
    EXPECT_EQ(written->isWriter, party == 0);
    EXPECT_EQ(written->clockError, 1000);
    EXPECT_EQ(written->numProcesses, 2);
  });
  EXPECT_EQ(readings, 2);
  Expected<Timeline> timeline = readTimeline(path);
  ASSERT_TRUE(timeline.ok()) << timeline.status().message();
  size_t commands = smallStep(4).get().rankPrograms[0].commands.size();
  EXPECT_EQ(timeline->events.size(), 2 * 4 * commands);
  EXPECT_EQ(timeline->head.clocks.size(), 2u);
  EXPECT_EQ(timeline->head.clocks[1].ranks, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(timeline->head.program, sessions[0]->hash());
  // What was a moment after the begin is now a second and as much again later.
  for (int64_t party : {0, 1})
    for (const TraceEvent &event : sessions[party]->trace().events) {
      int64_t begin = event.begin - sessions[0]->trace().events[0].begin;
      if (party)
        begin += kSecond + (event.begin - first);
      auto found = std::find_if(
          timeline->events.begin(), timeline->events.end(), [&](auto &other) {
            return other.rank == event.rank && other.step == event.step &&
                   other.command == event.command;
          });
      ASSERT_NE(found, timeline->events.end());
      int64_t origin = timeline->events[0].begin;
      EXPECT_NEAR(double(found->begin - origin), double(begin), 2);
    }
}

TEST_F(GatherTest, AloneItLacksTheOthers) {
  create();
  step();
  auto written = sessions[0]->writeTrace(path, /*alone=*/true);
  ASSERT_TRUE(written.ok()) << written.status().message();
  Expected<Timeline> timeline = readTimeline(path);
  ASSERT_TRUE(timeline.ok()) << timeline.status().message();
  ASSERT_EQ(timeline->missing.size(), 2u);
  EXPECT_EQ(timeline->missing[0].rank, 2);
  Expected<Report> report = makeReport(*timeline);
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->steps[0].isComplete);
  EXPECT_NE(printText(*report).find("of rank 3 events are missing: its process "
                                    "took no part"),
            std::string::npos);
  // The other party writes nothing.
  std::filesystem::remove(path);
  EXPECT_FALSE(sessions[1]->writeTrace(path, true)->isWriter);
  EXPECT_FALSE(std::filesystem::exists(path));
}

/// The others give what they have all the same.
TEST_F(GatherTest, WhatCannotBeWrittenIsAnError) {
  create();
  step();
  both([&](int64_t party) {
    auto full = sessions[party]->writeTrace("/dev/full");
    auto none = sessions[party]->writeTrace("/none/t.json");
    EXPECT_EQ(full.ok() && none.ok(), party == 1);
    if (party)
      return;
    expectError(full.status(),
                "cannot write '/dev/full': No space left on device");
    expectError(none.status(),
                "cannot write '/none/t.json': No such file or directory");
  });
}

/// Of all events of both parties, in the process that writes.
TEST_F(GatherTest, TakesLittleMemoryPerEvent) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers hold memory of their own";
#endif
  create();
  auto peak = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss * 1024;
  };
  malloc_trim(0);
  int64_t before = peak();
  constexpr int64_t kSteps = 8000;
  for (int64_t i = 0; i < kSteps; ++i)
    step();
  both([&](int64_t party) {
    EXPECT_OK(sessions[party]->writeTrace("/dev/null").status());
  });
  int64_t events = 2 * int64_t(sessions[0]->trace().events.size());
  EXPECT_GT(events, kSteps * 4 * 4);
  EXPECT_LE(peak() - before, 200 * events);
}

#ifdef TANDEM_GLOO
/// All clocks are one here, so the offset is as wrong as it is large.
TEST_F(GatherTest, RoundTripsBoundTheError) {
  Controls controls = joinAll(3);
  inProcesses(3, [&](int64_t process) {
    Expected<ClockReading> clock = controls[size_t(process)]->readClock();
    ASSERT_TRUE(clock.ok()) << clock.status().message();
    EXPECT_EQ(clock->process, process);
    EXPECT_LE(std::abs(clock->offset), clock->error);
    EXPECT_LT(clock->error, 50'000'000);
    EXPECT_EQ(clock->error == 0, process == 0);
  });
  controls[1]->leave();
  controls[0]->leave();
  EXPECT_FALSE(controls[2]->readClock().ok());
}
#endif

} // namespace
} // namespace tandem::rt::cts
