//===- predict_test.cpp - predicted timelines -----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/stages.h"
#include "cts/timelines.h"

#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace tandem::rt::cts {
namespace {

class PredictTest : public testing::Test {
protected:
  void TearDown() override { std::filesystem::remove(path); }

  /// A table of microseconds, for the Program of the builder.
  Expected<Timeline> predict(const TimelineBuilder &b,
                             const std::string &seconds,
                             const std::string &collectives,
                             const std::string &more = "") {
    std::ofstream(path)
        << R"({"program": "0123", "from": "a test", "seconds": [)" << seconds
        << R"(], "collectives": [)" << collectives << "]" << more << "}";
    return predictTimeline(b.timeline.head, path);
  }

  /// When a command ran, in microseconds.
  static std::pair<double, double> when(const Timeline &timeline, int64_t rank,
                                        uint32_t command,
                                        uint32_t iteration = 0) {
    for (const TraceEvent &event : timeline.events)
      if (event.rank == rank && event.command == command &&
          event.iteration == iteration)
        return {double(event.begin) / 1e3, double(event.end) / 1e3};
    ADD_FAILURE() << "command " << command << " has not run";
    return {};
  }

  const std::string path =
      testing::TempDir() + "table-" + std::to_string(getpid()) + ".json";
};

using Span = std::pair<double, double>;

/// first, then its sum beside second, then third, which needs the sum.
struct Small : TimelineBuilder {
  Small() : TimelineBuilder(2) {
    first = compute("first");
    ready = sync(kCompute, kComm);
    sum = collective("sum");
    second = compute("second");
    done = sync(kComm, kCompute);
    third = compute("third");
  }
  uint32_t first, ready, sum, second, done, third;
};

TEST_F(PredictTest, QueuesWaitForEvents) {
  Small s;
  auto timeline =
      predict(s, R"({"0": 10e-6, "4": 20e-6, "7": 5e-6})", R"({"3": 50e-6})");
  ASSERT_TRUE(timeline.ok()) << timeline.status().message();
  for (int64_t rank : {0, 1}) {
    EXPECT_EQ(when(*timeline, rank, s.ready), Span(0, 10));
    EXPECT_EQ(when(*timeline, rank, s.sum), Span(10, 60));
    EXPECT_EQ(when(*timeline, rank, s.second), Span(10, 30));
    EXPECT_EQ(when(*timeline, rank, s.done), Span(30, 60));
    EXPECT_EQ(when(*timeline, rank, s.third), Span(60, 65));
  }
  EXPECT_EQ(timeline->head.predictedFrom, "a test");
  Expected<Report> report = makeReport(*timeline);
  EXPECT_TRUE(report->steps[0].isComplete);
  EXPECT_DOUBLE_EQ(report->total.hiddenOfMin(), 20.0 / 35);
}

/// a = 2: second does 25 of its 20 + ... beside the sum at half speed; b
/// = 1.25.
TEST_F(PredictTest, BothSlowEachOtherDown) {
  Small s;
  auto timeline =
      predict(s, R"({"0": 10e-6, "4": 20e-6, "7": 0})", R"({"3": 50e-6})",
              R"(, "slowdowns": {"computation": 2, "collectives": 1.25})");
  ASSERT_TRUE(timeline.ok()) << timeline.status().message();
  // 40 beside each other, in which 32 of the sum are done; 18 are left.
  EXPECT_EQ(when(*timeline, 0, s.second), Span(10, 50));
  EXPECT_EQ(when(*timeline, 0, s.sum), Span(10, 68));
  // The latency of a collective disturbs nothing.
  timeline =
      predict(s, R"({"0": 10e-6, "4": 20e-6, "7": 0})", R"({"3": 50e-6})",
              R"(, "latency": [{"3": 50e-6}],
                          "slowdowns": {"computation": 2, "collectives": 2})");
  EXPECT_EQ(when(*timeline, 0, s.second), Span(10, 30));
  EXPECT_EQ(when(*timeline, 0, s.sum), Span(10, 60));
  // Slower together than apart: half of the time for each.
  timeline =
      predict(s, R"({"0": 10e-6, "4": 20e-6, "7": 0})", R"({"3": 50e-6})",
              R"(, "slowdowns": {"computation": 3, "collectives": 3})");
  EXPECT_EQ(when(*timeline, 0, s.second), Span(10, 50));
  EXPECT_EQ(when(*timeline, 0, s.sum), Span(10, 80));
}

/// Ranks with programs of their own meet when the last has come.
TEST_F(PredictTest, CollectivesWaitForTheLastMember) {
  Small s;
  s.timeline.head.rankPrograms.push_back(s.timeline.head.rankPrograms[0]);
  s.timeline.head.rankToProgram = {0, 1};
  auto timeline = predict(
      s,
      R"({"0": 10e-6, "4": 20e-6, "7": 1e-6}, {"0": 40e-6, "4": 20e-6, "7": 1e-6})",
      R"({"3": 50e-6}, {"3": 50e-6})");
  ASSERT_TRUE(timeline.ok()) << timeline.status().message();
  EXPECT_EQ(when(*timeline, 0, s.sum), Span(10, 90));
  EXPECT_EQ(when(*timeline, 1, s.sum), Span(40, 90));
  Expected<Report> report = makeReport(*timeline);
  EXPECT_NEAR(report->ranks[0].times.waitedForPeers, 30e-6, 1e-12);
}

TEST_F(PredictTest, EachQueueRepeatsItsPart) {
  TimelineBuilder b(2);
  b.beginRepeat(3);
  uint32_t x = b.compute("x");
  b.sync(kCompute, kComm);
  uint32_t c = b.collective("c");
  b.endRepeat();
  uint32_t after = b.sync(kComm, kCompute);
  auto timeline = predict(b, R"({"1": 10e-6})", R"({"4": 15e-6})");
  ASSERT_TRUE(timeline.ok()) << timeline.status().message();
  EXPECT_EQ(when(*timeline, 1, x, 2), Span(20, 30));
  EXPECT_EQ(when(*timeline, 1, c, 0), Span(10, 25));
  EXPECT_EQ(when(*timeline, 1, c, 2), Span(40, 55));
  EXPECT_EQ(when(*timeline, 1, after), Span(30, 55));
}

TEST_F(PredictTest, SaysWhatIsWrongWithATable) {
  Small s;
  auto expect = [&](const std::string &text, const std::string &error) {
    std::ofstream(path) << text;
    expectError(predictTimeline(s.timeline.head, path).status(), error);
  };
  std::string good = R"("program": "0123", "from": "x")";
  expect("[1", "cannot read times of '" + path + "': expected an object");
  expect("{}", "expected an object with the text 'program'");
  expect(R"({"program": "89", "from": "x", "seconds": []})",
         "table '" + path + "' is for program 89, expected 0123");
  expect("{" + good + R"(, "seconds": []})", "has 0 rank programs, expected 1");
  expect("{" + good + R"(, "seconds": [{"x": 1}]})",
         "expected 'seconds' to be a list with an object per rank program");
  expect("{" + good + R"(, "seconds": [{"0": -1}]})",
         "for command 0, expected at least 0");
  expect("{" + good + R"(, "seconds": [{"0": 1, "4": 1}]})",
         "has no seconds of command 3 'sum', expected all collectives, as "
         "tandem-profile --price writes them");
  expect("{" + good + R"(, "seconds": [{"0": 1, "4": 1}],
         "collectives": [{"3": 1}]})",
         "has no seconds of command 7 'third', expected all computing");
  expect("{" + good + R"(, "seconds": [{"0": 1, "4": 1, "7": 1}],
         "collectives": [{"3": 1}], "slowdowns": {"computation": 0.5}})",
         "has a slowdown of 0.500000, expected at least 1");
  expectError(readPrediction(s.timeline.head, "/none").status(),
              "cannot read '/none': No such file or directory");
}

/// Both kinds of file are a prediction.
TEST_F(PredictTest, ReadsTablesAndTimelines) {
  Small s;
  auto first =
      predict(s, R"({"0": 10e-6, "4": 20e-6, "7": 5e-6})", R"({"3": 50e-6})");
  ASSERT_TRUE(first.ok());
  auto again = readPrediction(s.timeline.head, path);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(textOf(*again), textOf(*first));
  std::remove(path.c_str()); // which is no timeline
  EXPECT_OK(writeTimeline(*first, path));
  again = readPrediction(s.timeline.head, path);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(textOf(*again), textOf(*first));
}

TEST_F(PredictTest, AnEventThatNeverComesIsAnError) {
  Small s;
  s.timeline.head.rankPrograms[0][s.ready].event = 99;
  expectError(predict(s, R"({"0": 1, "4": 1, "7": 1})", R"({"3": 1})").status(),
              "rank 0 waits in command 6 '' for what never comes");
}

/// A Program of stages, each command with the time of its kind.
struct Predicted {
  Predicted(const ProgramBuilder &b, const std::string &path,
            std::map<char, double> micros, double transfer, double latency) {
    CommandTimes times{"0123", "a test"};
    for (const RankProgram &rankProgram : b.get().rankPrograms) {
      auto &seconds = times.seconds.emplace_back();
      auto &moves = times.collectives.emplace_back();
      auto &latencies = times.latency.emplace_back();
      for (const Command *command : rankProgram.listing())
        if (isComputation(*command))
          seconds[command->id] = micros[command->name[1]] * 1e-6;
        else if (std::holds_alternative<Transfer>(command->operation)) {
          moves[command->id] = transfer * 1e-6;
          latencies[command->id] = latency * 1e-6;
        }
    }
    std::remove(path.c_str());
    EXPECT_OK(writeTimes(times, path));
    head = headOf(b.get(), "0123");
    auto made = predictTimeline(head, path);
    EXPECT_OK(made.status());
    timeline = std::move(*made);
  }
  /// When the n-th command of that name ran on a rank.
  Span when(int64_t rank, const std::string &name, size_t number = 0) const {
    for (const TraceEvent &event : timeline.events)
      if (event.rank == rank && head[event].name == name && number-- == 0)
        return {double(event.begin) / 1e3, double(event.end) / 1e3};
    ADD_FAILURE() << name << " has not run";
    return {};
  }
  TimelineHead head;
  Timeline timeline;
};

TEST_F(PredictTest, TransfersAreQueuesOfTheirOwn) {
  Stages p;
  Predicted made(p.b, path, {{'F', 10}, {'B', 20}, {'U', 1}}, 5, 1);
  for (int64_t data : {0, 1}) { // ranks 0 and 1 at point 0, 2 and 3 at point 1
    EXPECT_EQ(made.when(data, "0F1 work"), Span(10, 20));
    EXPECT_EQ(made.when(data, "send", 0), Span(10, 15));
    EXPECT_EQ(made.when(data, "send", 1), Span(20, 25));
    EXPECT_EQ(made.when(2 + data, "receive", 0), Span(0, 15));
    EXPECT_EQ(made.when(2 + data, "receive", 1), Span(15, 25));
    EXPECT_EQ(made.when(2 + data, "1F1 work"), Span(25, 35));
    EXPECT_EQ(made.when(2 + data, "1B1 work"), Span(55, 75));
    EXPECT_EQ(made.when(2 + data, "send", 0), Span(55, 60));
    EXPECT_EQ(made.when(data, "0B0 work"), Span(60, 80));
    EXPECT_EQ(made.when(data, "0B1 work"), Span(80, 100));
    EXPECT_EQ(made.when(2 + data, "1U update"), Span(100, 101));
  }
  Expected<Report> report = makeReport(made.timeline, &made.timeline);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->pipeAxis, "pipe");
  ASSERT_EQ(report->points.size(), 2u);
  EXPECT_NEAR(report->points[0].bubble, 40.0 / 101, 1e-9);
  EXPECT_NEAR(*report->points[1].predicted, 40.0 / 101, 1e-9);
  for (const PointReport &point : report->points) {
    ASSERT_TRUE(point.memory);
    EXPECT_EQ(point.inFlight, Stages::kRows);
  }
  // Four bytes to work in, beside the row that the update reads.
  EXPECT_EQ(report->points[0].memory->values, Stages::kBytes + 4);
  EXPECT_EQ(report->points[1].memory->values, 4);
  EXPECT_EQ(report->points[0].memory->held, heldBytes(p.b.get(), 0));
  EXPECT_NE(printText(*report).find("bubble"), std::string::npos);
  EXPECT_NE(printText(*report).find(" of them; 2 microbatches of its sections "
                                    "at a time"),
            std::string::npos);
  EXPECT_NE(printJson(*report).find("\"in_flight\": 2"), std::string::npos);
  EXPECT_NE(printJson(*report).find("\"pipe_axis\": \"pipe\""),
            std::string::npos);
  // As a file it is the same.
  auto again = parse(textOf(made.timeline));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(textOf(*again), textOf(made.timeline));
}

/// A point that has done its updates waits while others are in the step before.
TEST_F(PredictTest, WaitingForASenderBeginsNoStep) {
  Stages p;
  Predicted made(p.b, path, {{'F', 10}, {'B', 20}, {'U', 1}}, 5, 1);
  for (TraceEvent &event : made.timeline.events)
    if (event.rank >= 2 && event.begin == 0)
      event.begin -= 50'000;
  Expected<Report> report = makeReport(made.timeline, nullptr);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_NEAR(report->total.seconds, 101e-6, 1e-12);
  EXPECT_NEAR(report->points[1].bubble, 40.0 / 101, 1e-9);
}

/// Two that a point sends at once share its link; what it gets does not.
TEST_F(PredictTest, TransfersShareALinkInEachDirection) {
  ProgramBuilder b({{"pipe", 3}});
  b.setArena(64);
  auto op = [](int64_t from, int64_t to) {
    return Transfer{0, from, to, ElementType::F32, {4}};
  };
  std::vector<uint32_t> numbers = {0, b.addRankProgram(), b.addRankProgram()};
  b.setRankPrograms(0, numbers);
  for (uint32_t number : numbers) {
    b.setCurrent(number);
    b.setArena(64);
    b.add({.name = "0F0"}, Fill{b.arena(0, 64), {0}});
    uint32_t filled = b.recordEvent(0);
    for (auto [from, to] : {std::pair(0, 1), {0, 2}, {1, 0}}) {
      if (number != uint32_t(from) && number != uint32_t(to))
        continue;
      b.waitEvent(b.transferQueue(from, to), filled);
      BufferRef place = b.arena(16 * (from + to), 16);
      if (number == uint32_t(from))
        b.send({.name = "send"}, op(from, to), b.arena(0, 16));
      else
        b.receive({.name = "receive"}, op(from, to),
                  b.arena(48 - 16 * from, 16));
    }
  }
  EXPECT_OK(verifyProgram(b.get()));
  Predicted made(b, path, {{'F', 10}}, 21, 1);
  EXPECT_EQ(made.when(0, "send", 0), Span(10, 51));
  EXPECT_EQ(made.when(0, "send", 1), Span(10, 51));
  EXPECT_EQ(made.when(2, "receive"), Span(10, 51));
  EXPECT_EQ(made.when(1, "send"), Span(10, 31));
}

TEST_F(PredictTest, PicturesHaveTheColoursOfActions) {
  TimelineCommand command;
  for (auto [name, action] : {std::pair("0F3 matmul", 'F'),
                              {"12I0", 'I'},
                              {"0U adam", 'U'},
                              {"1B1 x", 'B'},
                              {"0S all_reduce", 'S'},
                              {"0W1 x", 'W'},
                              {"F3 x", '\0'},
                              {"0Fast", '\0'},
                              {"0X1", '\0'},
                              {"12", '\0'},
                              {"", '\0'}}) {
    command.name = name;
    EXPECT_EQ(actionOf(command), action) << name;
  }
  Stages p;
  Predicted made(p.b, path, {{'F', 10}, {'B', 20}, {'U', 1}}, 5, 1);
  auto svg = drawTimeline(made.timeline);
  ASSERT_TRUE(svg.ok()) << svg.status().message();
  for (const char *text :
       {">0 to 1</text>", ">1 to 0</text>", ">F forward</text>",
        ">B backward</text>", ">U update</text>"})
    EXPECT_NE(svg->find(text), std::string::npos) << text;
  for (const char *text : {">W weights</text>", "strand 0 computes"})
    EXPECT_EQ(svg->find(text), std::string::npos) << text;
}

} // namespace
} // namespace tandem::rt::cts
