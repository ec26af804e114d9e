//===- report_test.cpp - report of hidden communication -------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/timelines.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

namespace tandem::rt::cts {
namespace {

/// Microseconds.
double us(double seconds) { return seconds * 1e6; }

Report reportOf(const Timeline &timeline, const Timeline *predicted = nullptr) {
  Expected<Report> report = makeReport(timeline, predicted);
  EXPECT_OK(report.status());
  return report.ok() ? *report : Report();
}

const CollectiveReport &find(const Report &report, const std::string &name) {
  for (const CollectiveReport &entry : report.collectives)
    if (entry.command.name == name)
      return entry;
  ADD_FAILURE() << "no collective " << name;
  return report.collectives.front();
}

/// The time lost to `why`, and for which command.
double lostTo(const std::vector<WaitReason> &reasons, const std::string &why,
              const std::string &command = "") {
  double sum = 0;
  for (const WaitReason &reason : reasons)
    if (reason.why == why &&
        (reason.command ? reason.command->name : "") == command)
      sum += us(reason.seconds);
  return sum;
}

/// Two ranks. Each computes `first`, reduces it beside `second`, and needs the
/// sum for `third`; then reduces that with nothing left to compute. Rank 1 is
/// late with everything by 10.
TimelineBuilder twoCollectives() {
  TimelineBuilder b(2);
  uint32_t first = b.compute("first"), ready = b.sync(kCompute, kComm);
  uint32_t sum = b.collective("sum"), second = b.compute("second");
  uint32_t done = b.sync(kComm, kCompute), third = b.compute("third");
  uint32_t last = b.sync(kCompute, kComm), tail = b.collective("tail");
  for (int64_t rank : {0, 1}) {
    int64_t late = 10 * rank;
    b.ran(rank, first, 0, 20 + late);
    b.ran(rank, ready, 0, 20 + late);
    b.ran(rank, sum, 20 + late, 90); // rank 0 waits 10 for rank 1
    b.ran(rank, second, 20 + late, 60 + late);
    b.ran(rank, done, 60 + late, 90);
    b.ran(rank, third, 92, 100 + late); // 2 to begin
    b.ran(rank, last, 90, 100 + late);
    b.ran(rank, tail, 100 + late, 130);
  }
  return b;
}

TEST(Report, TellsHiddenFromExposed) {
  Report report = reportOf(twoCollectives().timeline);
  EXPECT_DOUBLE_EQ(us(report.total.seconds), 130);
  const StepTimes &zero = report.ranks[0].times, &one = report.ranks[1].times;
  EXPECT_DOUBLE_EQ(us(zero.computation), 20 + 40 + 8);
  EXPECT_DOUBLE_EQ(us(zero.communication), 70 + 30);
  EXPECT_DOUBLE_EQ(us(zero.hidden), 40);
  EXPECT_DOUBLE_EQ(us(zero.exposed), 60);
  EXPECT_DOUBLE_EQ(us(zero.idle), 130 - 68);
  EXPECT_DOUBLE_EQ(us(zero.waitedForPeers), 10 + 10);
  EXPECT_DOUBLE_EQ(zero.hiddenOfMin(), 40.0 / 68);
  EXPECT_DOUBLE_EQ(us(one.computation), 30 + 40 + 18);
  EXPECT_DOUBLE_EQ(us(one.communication), 60 + 20);
  EXPECT_DOUBLE_EQ(us(one.waitedForPeers), 0);
  EXPECT_DOUBLE_EQ(us(report.total.computation), (68 + 88) / 2);
  EXPECT_DOUBLE_EQ(us(report.total.hidden), 40);
}

/// Of 40 in which a copy runs, 10 lie beside computation and 15 beside the
/// collective, 5 of them beside both.
TEST(Report, CountsCopiesApart) {
  TimelineBuilder b(1);
  b.timeline.head.queues.push_back({QueueRole::Copy, "copy"});
  uint32_t copy = b.compute("from_host", 2), work = b.compute("work"),
           sum = b.collective("sum");
  b.ran(0, copy, 10, 50);
  b.ran(0, work, 0, 20);
  b.ran(0, sum, 15, 30);
  StepTimes times = reportOf(b.timeline).total;
  EXPECT_DOUBLE_EQ(us(times.computation), 20);
  EXPECT_DOUBLE_EQ(us(times.copies), 40);
  EXPECT_DOUBLE_EQ(us(times.copiesHidden), 20);
  EXPECT_DOUBLE_EQ(us(times.hidden), 5);
  EXPECT_DOUBLE_EQ(us(times.idle), 30);
  std::string text = printText(reportOf(b.timeline));
  EXPECT_NE(text.find("copies between device and host: 40.0 us, hidden 20.0 us "
                      "(50.0 %), exposed 20.0 us"),
            std::string::npos)
      << text;
}

TEST(Report, SaysWhatACollectiveWaitedFor) {
  Report report = reportOf(twoCollectives().timeline);
  const CollectiveReport &sum = find(report, "sum"),
                         &tail = find(report, "tail");
  EXPECT_EQ(report.collectives[0].command.name, "sum"); // 25, tail has 25
  EXPECT_DOUBLE_EQ(us(sum.seconds), 65);
  EXPECT_DOUBLE_EQ(us(sum.hidden), 40);
  EXPECT_DOUBLE_EQ(us(sum.data), 25);
  ASSERT_TRUE(sum.dataFrom);
  EXPECT_EQ(sum.dataFrom->name, "first");
  EXPECT_DOUBLE_EQ(us(sum.peer), 5); // rank 0 waits, rank 1 does not
  EXPECT_EQ(sum.lastPeer, 1);
  EXPECT_DOUBLE_EQ(us(sum.link), 0);
  EXPECT_EQ(sum.bytes, 1000);
  EXPECT_NEAR(lostTo(sum.exposedFor, "needed"), 25, 1e-9);
  EXPECT_NEAR(lostTo(tail.exposedFor, "end"), 25, 1e-9);
  EXPECT_EQ(tail.dataFrom->name, "third");
}

TEST(Report, SaysWhyNothingIsComputed) {
  Report report = reportOf(twoCollectives().timeline);
  const std::vector<WaitReason> &idle = report.ranks[0].idleFor;
  EXPECT_DOUBLE_EQ(lostTo(idle, "collective", "sum"), 30);
  EXPECT_DOUBLE_EQ(lostTo(idle, "launch"), 2);
  EXPECT_DOUBLE_EQ(lostTo(idle, "end"), 30);
  EXPECT_EQ(idle[0].seconds, idle[1].seconds);
}

/// The data of `b` is there at 10, but `a` has the link until 40.
TEST(Report, SaysThatTheLinkWasBusy) {
  TimelineBuilder t(2);
  uint32_t x = t.compute("x"), ready = t.sync(kCompute, kComm);
  uint32_t a = t.collective("a"), b = t.collective("b"), y = t.compute("y");
  t.ranOnAll(x, 0, 10);
  t.ranOnAll(ready, 0, 10);
  t.ranOnAll(a, 10, 40);
  t.ranOnAll(b, 41, 60);
  t.ranOnAll(y, 10, 55);
  Report report = reportOf(t.timeline);
  EXPECT_DOUBLE_EQ(us(find(report, "b").link), 30);
  EXPECT_EQ(find(report, "b").linkAfter->name, "a");
  EXPECT_DOUBLE_EQ(us(find(report, "b").data), 0);
  EXPECT_DOUBLE_EQ(us(find(report, "b").hidden), 14);
  EXPECT_NEAR(lostTo(find(report, "b").exposedFor, "end"), 5, 1e-9);
}

/// One thread runs both queues: nothing waits, and still it is the collective.
TEST(Report, SeesCollectivesThatOneThreadRuns) {
  TimelineBuilder t(2);
  uint32_t x = t.compute("x"), a = t.collective("a"), y = t.compute("y");
  t.ranOnAll(x, 0, 10);
  t.ranOnAll(a, 11, 40);
  t.ranOnAll(y, 41, 50);
  Report report = reportOf(t.timeline);
  EXPECT_DOUBLE_EQ(lostTo(report.ranks[0].idleFor, "collective", "a"), 29);
  EXPECT_DOUBLE_EQ(lostTo(report.ranks[0].idleFor, "launch"), 2);
  EXPECT_NEAR(lostTo(find(report, "a").exposedFor, "needed"), 29, 1e-9);
}

/// Computation waits for `a`, while `b` is exposed beside it on another queue.
TEST(Report, BlamesTheCollectiveThatComputationWaitsFor) {
  TimelineBuilder t(2);
  t.timeline.head.queues.push_back({QueueRole::Communication, "other"});
  uint32_t a = t.collective("a"), done = t.sync(kComm, kCompute);
  uint32_t b = t.collective("b", 2), x = t.compute("x");
  t.ranOnAll(a, 0, 30);
  t.ranOnAll(done, 0, 30);
  t.ranOnAll(b, 0, 20);
  t.ranOnAll(x, 30, 40);
  Report report = reportOf(t.timeline);
  EXPECT_NEAR(lostTo(find(report, "a").exposedFor, "needed"), 30, 1e-9);
  EXPECT_NEAR(lostTo(find(report, "b").exposedFor, "collective", "a"), 20,
              1e-9);
  EXPECT_DOUBLE_EQ(us(report.total.communication), 30); // both at once
}

TEST(Report, TakesMediansOfWholeSteps) {
  TimelineBuilder t(1);
  uint32_t x = t.compute("x"), y = t.compute("y");
  for (auto [step, length] : {std::pair(1, 900), {2, 50}, {3, 70}, {4, 60}}) {
    t.ran(0, x, 1000 * step, 1000 * step + length, step);
    t.ran(0, y, 1000 * step + length, 1000 * step + length + 10, step);
  }
  t.ran(0, x, 9000, 9001, 5); // a step that failed
  Expected<Report> report = makeReport(t.timeline, nullptr, {.skip = 1});
  ASSERT_TRUE(report.ok());
  EXPECT_DOUBLE_EQ(us(report->total.seconds), 70);
  EXPECT_DOUBLE_EQ(us(report->computations[0].seconds), 60);
  EXPECT_DOUBLE_EQ(us(reportOf(t.timeline).total.seconds), 75);
  ASSERT_EQ(report->steps.size(), 4u);
  EXPECT_FALSE(report->steps.back().isComplete);
  EXPECT_NE(printText(*report).find("note: 1 steps did not run to their end"),
            std::string::npos);
  expectError(makeReport(t.timeline, nullptr, {.skip = 5}).status(),
              "skip is 5, expected less than the 5 steps of the timeline");
}

TEST(Report, NothingRecordedIsAnError) {
  TimelineBuilder t(1);
  t.compute("x");
  expectError(makeReport(t.timeline).status(), "nothing was recorded");
  expectError(drawTimeline(t.timeline).status(), "nothing was recorded");
}

/// Iterations of a Repeat add up, each waiting for its own.
TEST(Report, CountsIterations) {
  TimelineBuilder t(2);
  t.beginRepeat(2);
  uint32_t x = t.compute("x"), ready = t.sync(kCompute, kComm);
  uint32_t c = t.collective("c");
  t.endRepeat();
  for (uint32_t i : {0u, 1u})
    for (int64_t rank : {0, 1}) {
      t.ran(rank, x, 10 * i, 10 * i + 10, 1, i);
      t.ran(rank, ready, i ? 15 : 0, i ? 20 : 10, 1, i);
      t.ran(rank, c, i ? 20 : 10, i ? 26 : 15, 1, i);
    }
  Report report = reportOf(t.timeline);
  EXPECT_TRUE(report.steps[0].isComplete);
  EXPECT_DOUBLE_EQ(report.collectives[0].times, 2);
  EXPECT_DOUBLE_EQ(us(report.collectives[0].seconds), 11);
  EXPECT_DOUBLE_EQ(us(report.collectives[0].hidden), 5);
  EXPECT_DOUBLE_EQ(us(report.collectives[0].data), 15);
  EXPECT_DOUBLE_EQ(us(report.collectives[0].link), 0);
  EXPECT_DOUBLE_EQ(us(report.computations[0].seconds), 20);
}

//===----------------------------------------------------------------------===//
// A second way of counting
//===----------------------------------------------------------------------===//

/// Random commands on two compute queues and two of communication.
Timeline randomTimeline(unsigned seed) {
  std::mt19937 engine(seed);
  auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine);
  };
  TimelineBuilder t(2);
  t.timeline.head.queues.push_back({QueueRole::Communication, "other"});
  std::vector<uint32_t> queues;
  for (int i = 0; i < 12; ++i) {
    uint32_t queue = uint32_t(pick(0, 2));
    queues.push_back(queue);
    if (queue == kCompute && pick(0, 3))
      t.compute("x");
    else
      t.collective("c", queue);
  }
  for (int64_t step : {1, 2, 3})
    for (int64_t rank : {0, 1}) {
      int64_t now[3] = {pick(0, 9), pick(0, 9), pick(0, 9)};
      for (uint32_t i = 0; i < queues.size(); ++i) {
        int64_t begin = now[queues[i]] + pick(0, 5), end = begin + pick(0, 20);
        t.ran(rank, i, 1000 * step + begin, 1000 * step + end, step);
        now[queues[i]] = end;
      }
    }
  return t.timeline;
}

/// By microseconds of a rank's step: what runs.
struct Second {
  bool computes = false;
  std::set<uint32_t> collectives = {};
};

std::map<int64_t, Second> ticksOf(const Timeline &timeline, int64_t rank,
                                  int64_t step) {
  std::map<int64_t, Second> ticks;
  for (const TraceEvent &event : timeline.events)
    for (int64_t tick = event.begin / 1000; tick < event.end / 1000; ++tick)
      if (event.rank == rank && event.step == step) {
        if (timeline.head[event].role == CommandRole::Compute)
          ticks[tick].computes = true;
        else
          ticks[tick].collectives.insert(event.command);
      }
  return ticks;
}

double medianOfThree(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[1];
}

TEST(Report, CountsAsTickByTick) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Timeline timeline = randomTimeline(seed);
    Report report = reportOf(timeline);
    std::map<uint32_t, std::vector<double>> hiddenOf; // by collective and step
    for (int64_t rank : {0, 1}) {
      std::vector<double> p, c, hidden;
      for (int64_t step : {1, 2, 3}) {
        double values[3] = {};
        for (const auto &[tick, what] : ticksOf(timeline, rank, step)) {
          values[0] += what.computes;
          values[1] += !what.collectives.empty();
          values[2] += what.computes && !what.collectives.empty();
          for (uint32_t command : what.collectives) {
            hiddenOf[command].resize(3);
            hiddenOf[command][size_t(step - 1)] += what.computes / 2.0;
          }
        }
        p.push_back(values[0]), c.push_back(values[1]);
        hidden.push_back(values[2]);
      }
      const StepTimes &times = report.ranks[size_t(rank)].times;
      EXPECT_NEAR(us(times.computation), medianOfThree(p), 1e-6);
      EXPECT_NEAR(us(times.communication), medianOfThree(c), 1e-6);
      EXPECT_NEAR(us(times.hidden), medianOfThree(hidden), 1e-6);
    }
    for (const CollectiveReport &entry : report.collectives)
      if (hiddenOf.contains(entry.command.id))
        EXPECT_NEAR(us(entry.hidden), medianOfThree(hiddenOf[entry.command.id]),
                    1e-6);
  }
}

/// Nothing is lost: in one step the reasons of idle time add up to it, and
/// those of a collective to its exposed time.
TEST(Report, ReasonsAddUp) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Timeline timeline = randomTimeline(seed);
    std::erase_if(timeline.events, [](auto &event) { return event.step > 1; });
    Report report = reportOf(timeline);
    auto sum = [](const std::vector<WaitReason> &reasons) {
      double all = 0;
      for (const WaitReason &reason : reasons)
        all += us(reason.seconds);
      return all;
    };
    for (const RankReport &rank : report.ranks) {
      EXPECT_NEAR(sum(rank.idleFor), us(rank.times.idle), 1e-6);
      EXPECT_NEAR(us(rank.times.idle + rank.times.computation),
                  us(rank.times.seconds), 1e-6);
    }
    for (const CollectiveReport &entry : report.collectives)
      EXPECT_NEAR(sum(entry.exposedFor), us(entry.exposed), 1e-6);
  }
}

//===----------------------------------------------------------------------===//
// Predictions, and what is printed
//===----------------------------------------------------------------------===//

TEST(Report, PutsPredictionsBeside) {
  Timeline measured = twoCollectives().timeline, predicted = measured;
  for (TraceEvent &event : predicted.events)
    event.begin *= 2, event.end *= 2;
  predicted.head.predictedFrom = "planned: cluster 'pair'";
  Report report = reportOf(measured, &predicted);
  ASSERT_TRUE(report.predicted);
  EXPECT_DOUBLE_EQ(us(report.predicted->seconds), 260);
  EXPECT_DOUBLE_EQ(us(report.ranks[1].predicted->computation), 2 * 88);
  EXPECT_DOUBLE_EQ(us(find(report, "sum").predicted->seconds), 130);
  for (const ComputationReport &entry : report.computations)
    EXPECT_DOUBLE_EQ(*entry.predicted, 2 * entry.seconds);
  EXPECT_NE(printText(report).find("+100.0 % of the measured step"),
            std::string::npos);
  predicted.head.program = "4567";
  expectError(
      makeReport(measured, &predicted).status(),
      "the prediction is of program 4567, expected 0123 as the timeline");
}

TEST(Report, PrintsTextAndJson) {
  TimelineBuilder b = twoCollectives();
  b.timeline.head.clocks = {{0, {0}, 0, 0}, {1, {1}, 10, 8000}};
  Report report = reportOf(b.timeline);
  std::string text = printText(report);
  for (const char *line :
       {"1 steps of program 0123 on 2 ranks (data=2)",
        "clocks of 2 processes within 8.0 us",
        "rank 0       130.0 us     68.0 us    100.0 us     40.0 us     60.0 us"
        "    58.8 %",
        "for gemm 'first' (model.py:0)", "5.0 us for rank 1, which came last",
        "exposed 25.0 us computation needs it at once",
        "exposed 25.0 us nothing left to compute"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  auto json = nlohmann::json::parse(printJson(report));
  EXPECT_DOUBLE_EQ(json["clock_error"], 8e-6);
  EXPECT_DOUBLE_EQ(json["total"]["hidden"], 40e-6);
  EXPECT_EQ(json["collectives"][0]["after"]["peer"], 1);
  EXPECT_EQ(json["collectives"][0]["axes"], nlohmann::json({"data"}));
  EXPECT_EQ(json["mesh"]["data"], 2);
  EXPECT_EQ(json["commands"].size(), 3u);
  EXPECT_TRUE(json["predicted_from"].is_null());
}

TEST(Picture, HasABarForEachCommand) {
  Timeline timeline = twoCollectives().timeline;
  timeline.head.rankPrograms[0][0].name = "<first>";
  Expected<std::string> svg = drawTimeline(timeline);
  ASSERT_TRUE(svg.ok());
  auto count = [&](const std::string &text) {
    size_t found = 0;
    for (size_t at = svg->find(text); at != svg->npos;
         at = svg->find(text, at + 1))
      ++found;
    return found;
  };
  EXPECT_EQ(count("<title>&lt;first&gt; model.py:0"), 2u);
  EXPECT_EQ(count("<title>"), 2 * 5u + 2); // and two waits for rank 1
  EXPECT_EQ(count(">rank 1</text>"), 1u);
  EXPECT_EQ(svg->find("<first>"), svg->npos);
  expectError(drawTimeline(timeline, {.step = 4}).status(),
              "step 4 was not recorded, expected one of 1 to 1");
  expectError(drawTimeline(timeline, {.ranks = {5}}).status(),
              "rank 5 has no events in step 1");
}

} // namespace
} // namespace tandem::rt::cts
