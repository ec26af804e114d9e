//===- timed_test.cpp - commands that sleep, queues that are one ----------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/stages.h"
#include "cts/training_step.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace tandem::rt::cts {
namespace {

/// The same for each computing command.
CommandTimes evenTimes(const ProgramBuilder &builder, double each) {
  Expected<Bytes> bytes = builder.finish();
  CommandTimes times{programHash(*bytes), "a test"};
  for (const RankProgram &rankProgram : builder.get().rankPrograms) {
    auto &seconds = times.seconds.emplace_back();
    for (const Command *command : rankProgram.listing())
      if (isComputation(*command))
        seconds[command->id] = each;
  }
  return times;
}

std::shared_ptr<const CommandTimes> share(CommandTimes times) {
  return std::make_shared<const CommandTimes>(std::move(times));
}

/// Whether it is so in one of many tries: another process may have the CPU in
/// any of them.
template <typename Try> bool happens(Try isSo) {
  for (int i = 0; i < 20; ++i)
    if (isSo())
      return true;
  return false;
}

/// Begin and end of the events of one command on one rank.
std::vector<TraceEvent> eventsOf(const Session &session, int64_t rank,
                                 const std::string &name) {
  auto listing = session.program().rankPrograms[0].listing();
  std::vector<TraceEvent> events;
  for (const TraceEvent &event : session.trace().events)
    if (event.rank == rank && listing[event.command]->name == name)
      events.push_back(event);
  return events;
}

//===----------------------------------------------------------------------===//
// Commands that sleep
//===----------------------------------------------------------------------===//

/// Two commands on one queue, and a third on another that needs the first.
ProgramBuilder threeFills() {
  ProgramBuilder b({});
  addCommQueue(b);
  b.setArena(192);
  b.add({.name = "first"}, Fill{b.arena(0, 4), {1}});
  uint32_t done = b.recordEvent(kCompute);
  b.add({.name = "second"}, Fill{b.arena(64, 4), {1}});
  b.waitEvent(kComm, done);
  b.add({.name = "beside", .queue = kComm}, Fill{b.arena(0, 4), {1}});
  return b;
}

TEST(Timed, CommandsTakeTheirTimesBesideOneAnother) {
  Watchdog watchdog(60);
  ProgramBuilder b = threeFills();
  auto session = start(b, {.trace = true, .times = share(evenTimes(b, 0.02))});
  ASSERT_TRUE(session);
  auto isBeside = [&] {
    EXPECT_OK(session->step());
    auto last = [&](const char *name) {
      return eventsOf(*session, 0, name).back();
    };
    TraceEvent first = last("first"), second = last("second"),
               beside = last("beside");
    for (const TraceEvent &event : {first, second, beside})
      EXPECT_GE(event.end - event.begin, 15'000'000);
    EXPECT_GE(second.begin, first.end);
    EXPECT_GE(beside.begin, first.end);
    return beside.begin < second.end;
  };
  EXPECT_TRUE(happens(isBeside));
}

/// Each sleep ends some time after its deadline; the next one is shorter by it.
TEST(Timed, LateEndsDoNotAddUp) {
  Watchdog watchdog(60);
  ProgramBuilder b({});
  b.setArena(64);
  constexpr int kCount = 2000;
  constexpr double kEach = 100e-6;
  for (int i = 0; i < kCount; ++i)
    b.add({.name = "fill"}, Fill{b.arena(0, 4), {1}});
  auto session = start(b, {.trace = true, .times = share(evenTimes(b, kEach))});
  ASSERT_TRUE(session);
  auto mostAreInTime = [&] {
    EXPECT_OK(session->step());
    auto events = eventsOf(*session, 0, "fill");
    events.erase(events.begin(), events.end() - kCount);
    // The k-th deadline is k times so long after the begin; a machine that is
    // busy for a moment makes some late, but not those after it.
    int64_t begin = events.front().begin, late = 0;
    for (int i = 0; i < kCount; ++i) {
      int64_t deadline = begin + int64_t((i + 1) * kEach * 1e9);
      EXPECT_GE(events[size_t(i)].end, deadline - 100'000);
      late += events[size_t(i)].end > deadline + 1'000'000;
    }
    return late < kCount / 2;
  };
  EXPECT_TRUE(happens(mostAreInTime));
}

/// Asking for a sleep takes longer than many a command.
TEST(Timed, ShortCommandsTakeNoLongerThanTheyShould) {
  Watchdog watchdog(60);
  ProgramBuilder b({});
  b.setArena(64);
  constexpr int kCount = 4000;
  constexpr double kEach = 5e-6;
  for (int i = 0; i < kCount; ++i)
    b.add({.name = "fill"}, Fill{b.arena(0, 4), {1}});
  auto session = start(b, {.times = share(evenTimes(b, kEach))});
  ASSERT_TRUE(session);
  auto isShort = [&] {
    auto begin = std::chrono::steady_clock::now();
    EXPECT_OK(session->step());
    std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - begin;
    EXPECT_GE(took.count(), kCount * kEach);
    return took.count() < 1.5 * kCount * kEach;
  };
  EXPECT_TRUE(happens(isShort));
}

/// A step of which all is real but computation.
TEST(Timed, CollectivesAreRealAndChecksPass) {
  Watchdog watchdog(60);
  TrainingStep model(2);
  auto session = start(
      model.b, {.trace = true, .times = share(evenTimes(model.b, 0.001))});
  ASSERT_TRUE(session);
  set(*session, "parameter", "w",
      tensorOf<float>({4, 3}, std::vector<float>(12, NAN)));
  for (int step = 0; step < 3; ++step)
    EXPECT_OK(session->step());
  for (int64_t rank = 0; rank < 2; ++rank)
    EXPECT_EQ(eventsOf(*session, rank, "all_reduce dw").size(), 3u);
  EXPECT_EQ(session->trace().events.back().step, 3);
}

/// A check that a group combines talks to its members, and refuses nothing.
TEST(Timed, CombinedChecksPass) {
  Watchdog watchdog(60);
  ProgramBuilder b({{"data", 2}});
  uint32_t x =
      b.addArgument({"input", "x", ElementType::F32, {4}, {}, {}, -1, {}});
  b.add({.name = "check"},
        Check{CheckKind::Finite, ElementType::F32, b.argument(x), "x", {0}});
  auto run = [&](std::shared_ptr<const CommandTimes> times) {
    auto session = start(b, {.times = std::move(times)});
    Tensor input = tensorOf<float>({4}, {1, 2, 3, NAN});
    std::vector<TensorView> inputs = {input.view()};
    return session->step(inputs);
  };
  expectError(run(nullptr), "x is nan");
  EXPECT_OK(run(share(evenTimes(b, 0.001))));
}

/// What nobody has computed is not given to anybody.
TEST(Timed, ValuesAreRefusedAfterAStep) {
  TrainingStep model(2);
  auto session = start(model.b, {.times = share(evenTimes(model.b, 0))});
  ASSERT_TRUE(session);
  EXPECT_TRUE(session->getArgument(model.w).ok());
  EXPECT_OK(session->step());
  expectError(session->getArgument(model.w).status(),
              "values are not computed");
  expectError(session->getResult(model.loss).status(),
              "values are not computed");
  auto other = Session::create(
      *model.b.finish(),
      {.store = session->store(), .times = share(evenTimes(model.b, 0))});
  expectError(other.status(), "times and a store of others");
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

TEST(CommandTimes, TablesOfOtherProgramsAreErrors) {
  ProgramBuilder b = threeFills();
  auto refused = [&](const CommandTimes &times) {
    return Session::create(*b.finish(), {.times = share(times)}).status();
  };
  CommandTimes times = evenTimes(b, 0);
  EXPECT_OK(refused(times));
  times.program = "0";
  expectError(refused(times), "times are of program 0, expected ");
  times = evenTimes(b, -1);
  expectError(refused(times), "expected at least 0");
  times = evenTimes(b, 0);
  times.seconds[0].erase(times.seconds[0].begin());
  expectError(refused(times), "times have none for command 0 'first'");
  times = evenTimes(b, 0);
  times.seconds[0][77] = 1;
  expectError(refused(times), "expected its 3 that compute");
  times.seconds.clear();
  expectError(refused(times), "times have 0 rank programs, expected 1");
}

TEST(CommandTimes, MeasuredOnesAreMedians) {
  ProgramBuilder b = threeFills();
  Trace trace;
  // Commands 0, 2 and 4 of the listing are the fills.
  for (int64_t step = 0; step < 3; ++step)
    for (uint32_t command : {0u, 2u, 4u})
      trace.events.push_back(
          {0, command, 0, step, 1000, 1000 + (step + 1) * (command + 1) * 100});
  auto times = measuredTimes(b.get(), "hash", trace);
  ASSERT_TRUE(times.ok());
  std::vector<double> seconds;
  for (auto [id, value] : times->seconds.at(0))
    seconds.push_back(value);
  ASSERT_EQ(seconds.size(), 3u);
  EXPECT_DOUBLE_EQ(seconds[0], 200e-9);
  EXPECT_DOUBLE_EQ(seconds[1], 600e-9);
  EXPECT_DOUBLE_EQ(seconds[2], 1000e-9);
  expectError(measuredTimes(b.get(), "hash", {}).status(),
              "no step of rank program 0 was traced");
}

TEST(CommandTimes, FilesReadBack) {
  std::string path = testing::TempDir() + "times-" + std::to_string(getpid());
  CommandTimes times{
      "ab12", "a test", "a machine", {{{4, 0.25}, {7, 1e-6}}, {}}};
  times.collectives = {{{5, 0.5}}, {}};
  times.latency = {{{5, 0.125}}, {}};
  times.computationSlowdown = 1.5;
  times.collectiveSlowdown = 2;
  times.copySlowdown = 1.25;
  EXPECT_OK(writeTimes(times, path));
  auto read = readTimes(path);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->program, times.program);
  EXPECT_EQ(read->from, times.from);
  EXPECT_EQ(read->machine, times.machine);
  EXPECT_EQ(read->seconds, times.seconds);
  EXPECT_EQ(read->collectives, times.collectives);
  EXPECT_EQ(read->latency, times.latency);
  EXPECT_EQ(read->computationSlowdown, 1.5);
  EXPECT_EQ(read->collectiveSlowdown, 2);
  EXPECT_EQ(read->copySlowdown, 1.25);
  for (const char *text :
       {"", "[]", R"({"from": "x", "seconds": []})",
        R"({"program": "x", "from": "x"})",
        R"({"program": "x", "from": "x", "seconds": [{"a": 1}]})",
        R"({"program": "x", "from": "x", "seconds": [{"1": "b"}]})"}) {
    std::ofstream(path) << text;
    expectError(readTimes(path).status(), "cannot read times of");
  }
  std::filesystem::remove(path);
  expectError(readTimes(path).status(), "No such file");
  expectError(readTimes(testing::TempDir()).status(),
              "expected a file that can be read");
}

//===----------------------------------------------------------------------===//
// Queues as one
//===----------------------------------------------------------------------===//

TEST(OneQueue, NothingIsBesideAnything) {
  Watchdog watchdog(60);
  ProgramBuilder b = threeFills();
  auto session = start(
      b, {.trace = true, .times = share(evenTimes(b, 0.01)), .oneQueue = true});
  ASSERT_TRUE(session);
  EXPECT_OK(session->step());
  const std::vector<TraceEvent> &events = session->trace().events;
  ASSERT_EQ(events.size(), 5u);
  for (size_t i = 1; i < events.size(); ++i) {
    EXPECT_EQ(events[i].command, i);
    EXPECT_GE(events[i].begin, events[i - 1].end);
  }
}

/// After a collective on the same thread a command has all of its time.
TEST(OneQueue, TimeOfACollectiveIsNotTakenFromTheNextCommand) {
  Watchdog watchdog(60);
  TrainingStep model(2);
  auto session = start(model.b, {.trace = true,
                                 .times = share(evenTimes(model.b, 0.005)),
                                 .oneQueue = true});
  ASSERT_TRUE(session);
  EXPECT_OK(session->step());
  for (int64_t rank = 0; rank < 2; ++rank) {
    auto sgd = eventsOf(*session, rank, "check loss");
    ASSERT_EQ(sgd.size(), 1u);
    EXPECT_GE(sgd[0].end - sgd[0].begin, 4'900'000);
  }
}

/// Points compute at their turns: no step is shorter than its longest path, and
/// one of several is hardly longer.
TEST(Timed, StagesTakeTheTimeOfTheirPath) {
  Watchdog watchdog(60);
  Stages p(1);
  CommandTimes times = evenTimes(p.b, 0);
  for (size_t number = 0; number < 2; ++number)
    for (const Command *command : p.b.get().rankPrograms[number].listing())
      if (isComputation(*command))
        times.seconds[number][command->id] = std::map<char, double>{
            {'F', 10e-3}, {'B', 20e-3}, {'U', 0}}[command->name[1]];
  auto session = start(p.b, {.times = share(times)});
  ASSERT_TRUE(session);
  auto isInTime = [&] {
    auto begin = std::chrono::steady_clock::now();
    EXPECT_OK(session->step());
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
            .count();
    EXPECT_GE(seconds, 0.09); // 0F0 1F0 1F1 1B0 1B1 0B1
    return seconds < 0.09 * 1.05;
  };
  EXPECT_TRUE(happens(isInTime));
}

} // namespace
} // namespace tandem::rt::cts
