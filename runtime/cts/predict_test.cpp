//===- predict_test.cpp - predicted timelines -----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

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

} // namespace
} // namespace tandem::rt::cts
