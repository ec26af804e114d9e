//===- SchedulesTest.cpp - orders with known times ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MakeOrder.h"
#include "tandem/Orders/Simulate.h"
#include "tandem/Orders/VerifyOrder.h"
#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

using namespace tandem::orders;
using nlohmann::json;

static const json &getFile() {
  static const json schedules =
      json::parse(std::ifstream(TANDEM_SCHEDULES), nullptr, false);
  return schedules;
}

static const json &getCases() { return getFile()["cases"]; }

static std::string getText(const json &rows) {
  std::string text;
  for (const json &row : rows)
    text += row.get<std::string>() + "\n";
  return text;
}

/// In units of 1/v of the case's own, so that all numbers are whole.
static Partition getPartition(const json &schedule) {
  Partition partition;
  partition.numPoints = schedule["p"];
  for (unsigned point : schedule["placement"])
    partition.sections.push_back({.point = point,
                                  .forward = schedule["F"],
                                  .input = schedule["I"],
                                  .weight = schedule["W"]});
  double seconds =
      schedule["comm"].get<double>() * schedule["chunks_per_rank"].get<int>();
  for (unsigned i = 1; i < partition.sections.size(); ++i)
    partition.edges.push_back({i - 1, i, seconds});
  return partition;
}

static std::string getName(const json &schedule) {
  return schedule["schedule"].get<std::string>() + " of " +
         schedule["group"].get<std::string>();
}

static Order readOrder(const json &schedule) {
  std::string text = getText(schedule["order"]), error;
  std::optional<Order> order = parseOrder(text, "order", error);
  EXPECT_TRUE(order) << error;
  EXPECT_EQ(print(*order), text);
  return *order;
}

TEST(Schedules, HaveTheirTimesAndPeaks) {
  ASSERT_EQ(getCases().size(), 33u);
  for (const json &schedule : getCases()) {
    SCOPED_TRACE(getName(schedule));
    Order order = readOrder(schedule);
    Partition partition = getPartition(schedule);
    double scale = schedule["chunks_per_rank"];
    OrderLimits limits{schedule["m"].get<unsigned>(), {}};
    for (const json &peak : schedule["peak_activations"])
      limits.activations.push_back(std::round(peak.get<double>() * scale));
    std::string error;
    ASSERT_TRUE(verifyOrder(partition, order, limits, "order", error)) << error;
    Simulation simulation = simulate(partition, order);
    EXPECT_EQ(simulation.makespan, schedule["makespan"].get<double>() * scale);
    EXPECT_EQ(simulation.longestSpan,
              schedule["longest_rank_span"].get<double>() * scale);
    for (size_t i = 0; i < simulation.points.size(); ++i)
      EXPECT_EQ(simulation.points[i].peak, limits.activations[i]);
  }
}

/// The peaks are the limits that an order just keeps.
TEST(Schedules, BreakLowerLimits) {
  for (const json &schedule : getCases()) {
    SCOPED_TRACE(getName(schedule));
    Order order = readOrder(schedule);
    Partition partition = getPartition(schedule);
    double scale = schedule["chunks_per_rank"];
    const json &peaks = schedule["peak_activations"];
    for (size_t i = 0; i < peaks.size(); ++i) {
      OrderLimits limits;
      limits.activations.assign(peaks.size(), INFINITY);
      limits.activations[i] = std::round(peaks[i].get<double>() * scale) - 1;
      std::string error;
      EXPECT_FALSE(verifyOrder(partition, order, limits, "order", error));
      EXPECT_EQ(error.rfind("order:" + std::to_string(i + 1) + ": entry ", 0),
                0u)
          << error;
    }
  }
}

/// Time does not go backwards, and no value arrives before it is sent.
TEST(Schedules, RunInOrder) {
  for (const json &schedule : getCases()) {
    SCOPED_TRACE(getName(schedule));
    Order order = readOrder(schedule);
    Partition partition = getPartition(schedule);
    Simulation simulation = simulate(partition, order);
    auto findEnd = [&](unsigned section, char letter, unsigned microbatch) {
      for (size_t point = 0; point < order.points.size(); ++point)
        for (size_t i = 0; i < order.points[point].size(); ++i) {
          const Action &action = order.points[point][i];
          if (action.section == section && getLetter(action.kind) == letter &&
              action.microbatch == microbatch)
            return simulation.actions[point][i].end;
        }
      return -1.0;
    };
    double comm = schedule["comm"].get<double>() *
                  schedule["chunks_per_rank"].get<double>();
    for (size_t point = 0; point < order.points.size(); ++point) {
      double end = 0;
      for (size_t i = 0; i < order.points[point].size(); ++i) {
        const Action &action = order.points[point][i];
        Interval time = simulation.actions[point][i];
        EXPECT_GE(time.begin, end);
        end = time.end;
        if (action.kind != ActionKind::Forward || action.section == 0)
          continue;
        unsigned before = action.section - 1;
        bool crosses = partition.sections[before].point != point;
        EXPECT_GE(time.begin, findEnd(before, 'F', action.microbatch) +
                                  (crosses ? comm : 0));
      }
    }
  }
}

static Shape getShape(const json &schedule) {
  unsigned sections = schedule["placement"].size();
  return {schedule["p"], sections, schedule["m"]};
}

/// The file's groups stand without their marks.
static std::string printPlain(Order order) {
  for (std::vector<Action> &row : order.points)
    for (Action &action : row)
      action.overlapsNext = false;
  return print(order);
}

static std::string getScheduleName(const json &schedule) {
  std::string name = schedule["schedule"];
  return name == "interleaved-1f1b" ? "interleaved" : name;
}

/// The schedules write the orders of the file, which they were not read from.
TEST(Schedules, AreWritten) {
  for (const json &schedule : getCases()) {
    SCOPED_TRACE(getName(schedule));
    std::string name = getScheduleName(schedule);
    Order order = makeOrder(name, getShape(schedule));
    EXPECT_EQ(printPlain(order), getText(schedule["order"]));
    const json &places = schedule["placement"];
    for (unsigned i = 0; i < places.size(); ++i)
      EXPECT_EQ(findSchedule(name)->getPoint(i, schedule["p"]), places[i]);
  }
}

/// What a schedule holds at most, in sections of one microbatch.
static double getMostHeld(const Schedule &schedule, const Shape &shape) {
  double points = shape.numPoints, count = shape.numSections / points;
  double all = count * shape.numMicrobatches;
  if (schedule.name == "1f1b" || schedule.name == "zb-h1")
    return std::min(points, all);
  if (schedule.name == "zb-h2")
    return std::min(2 * points - 1, all);
  if (schedule.name == "zb-v")
    return std::min(2 * points, all);
  if (schedule.name == "dualpipe-v")
    return 2 * points + 1;
  return all;
}

/// For small numbers of all kinds: each order can run, sections lie where the
/// schedule says, and points hold what the schedule promises.
TEST(Schedules, RunForAllShapes) {
  for (const Schedule &schedule : getSchedules())
    for (unsigned points = 1; points <= 6; ++points)
      for (unsigned count = 1; count <= 4; ++count)
        for (unsigned microbatches = 1; microbatches <= 19; ++microbatches) {
          Shape shape{points, points * count, microbatches};
          std::string error;
          std::optional<Order> order = schedule.make(shape, error);
          bool isRefused =
              (schedule.sectionsPerPoint &&
               schedule.sectionsPerPoint != count) ||
              microbatches < schedule.microbatchesPerPoint * points;
          ASSERT_EQ(!order, isRefused) << error;
          if (!order)
            continue;
          SCOPED_TRACE(std::string(schedule.name) + "\n" + print(*order));
          auto partition = inferPartition(*order, {}, "order", error);
          ASSERT_TRUE(partition) << error;
          ASSERT_EQ(partition->sections.size(), shape.numSections);
          for (unsigned i = 0; i < shape.numSections; ++i)
            ASSERT_EQ(partition->sections[i].point,
                      schedule.getPoint(i, points));
          OrderLimits limits{microbatches, {}};
          limits.activations.assign(points, getMostHeld(schedule, shape));
          ASSERT_TRUE(verifyOrder(*partition, *order, limits, "order", error))
              << error;
        }
}

/// Of 1F1B, interleaved 1F1B, AIAO and ZB-H1, in units of 1/v.
TEST(Schedules, SumGradientsBeside) {
  ASSERT_EQ(getFile()["gradient_sums"].size(), 18u);
  for (const json &row : getFile()["gradient_sums"]) {
    SCOPED_TRACE(row.dump());
    unsigned points = row["p"], count = row["chunks_per_rank"];
    Order order =
        makeOrder(getScheduleName(row), {points, points * count, row["m"]});
    std::string error;
    auto partition = inferPartition(
        order, {row["F"], row["I"], row["W"], 0, row["sync"]}, "order", error);
    ASSERT_TRUE(partition) << error;
    Simulation simulation = simulate(*partition, order);
    EXPECT_EQ(simulation.makespan, row["makespan"].get<double>() * count);
    EXPECT_EQ(simulation.end, row["with_sync"].get<double>() * count);
  }
}

/// Two sections on one point, with sums of 4. The rests of 2 delay F of the
/// first one to 2, and of the second one to 4; then B until 9, and sums of 2
/// from 7 and 9 on.
TEST(Schedules, SumInTwoParts) {
  Order order = makeOrder("aiao", {1, 2, 1});
  std::string error;
  auto partition = inferPartition(order, {1, 1, 1, 0, 4}, "order", error);
  ASSERT_TRUE(partition) << error;
  EXPECT_EQ(simulate(*partition, order).end, 12);
  Simulation split = simulateSplit(*partition, order, 0.5);
  EXPECT_EQ(split.actions[0][0].begin, 2);
  EXPECT_EQ(split.actions[0][1].begin, 4);
  EXPECT_EQ(split.makespan, 9);
  EXPECT_EQ(split.end, 11);
  EXPECT_EQ(findSplit(*partition, order), 0.75);
  EXPECT_EQ(simulateSplit(*partition, order, 0.75).end, 11);
}

/// Of the data, with a sum of 12: 29.25 and 32.25, and what is put off to the
/// next step delays its first F as much. Sums that take longer than the
/// computation beside them gain.
TEST(Schedules, LongSumsGainInTwoParts) {
  for (std::string name : {"aiao", "interleaved"}) {
    Order order = makeOrder(name, {4, 16, 8});
    std::string error;
    auto partition = inferPartition(order, {1, 1, 1, 0, 12}, "order", error);
    ASSERT_TRUE(partition) << error;
    EXPECT_EQ(simulate(*partition, order).end,
              4 * (name == "aiao" ? 29.25 : 32.25));
    EXPECT_LE(
        simulateSplit(*partition, order, findSplit(*partition, order)).end,
        simulate(*partition, order).end);
    auto longer = inferPartition(order, {1, 1, 1, 0, 60}, "order", error);
    ASSERT_TRUE(longer) << error;
    double early = findSplit(*longer, order);
    EXPECT_LT(early, 1);
    EXPECT_LT(simulateSplit(*longer, order, early).end,
              simulate(*longer, order).end);
  }
}

TEST(Schedules, RefuseOtherShapes) {
  auto refuse = [](std::string_view name, const Shape &shape) {
    std::string error;
    EXPECT_FALSE(findSchedule(name)->make(shape, error));
    return error;
  };
  EXPECT_EQ(refuse("1f1b", {2, 4, 8}), "order '1f1b' has 1 section per point, "
                                       "found 4 sections on 2 points, expected "
                                       "2");
  EXPECT_EQ(refuse("zb-v", {1, 1, 8}), "order 'zb-v' has 2 sections per point, "
                                       "found 1 section on 1 point, expected "
                                       "2");
  EXPECT_EQ(refuse("aiao", {2, 5, 8}),
            "order 'aiao' has as many sections on each point, found 5 sections "
            "on 2 points, expected a multiple of 2");
  EXPECT_EQ(refuse("dualpipe-v", {2, 4, 1}),
            "order 'dualpipe-v' needs 2 microbatches per point, found 1 "
            "microbatch on 2 points, expected at least 4");
}

TEST(Schedules, HaveNames) {
  EXPECT_EQ(listSchedules(), "1f1b, gpipe, interleaved, aiao, zb-h1, zb-h2, "
                             "interleaved-zb, zb-v or dualpipe-v");
  EXPECT_EQ(findSchedule("1f1b,gpipe"), nullptr);
  EXPECT_EQ(getForwardFirstSchedule().name, "gpipe");
  EXPECT_TRUE(findSchedule("aiao")->runsForwardFirst());
  EXPECT_FALSE(findSchedule("dualpipe-v")->runsForwardFirst());
}

/// All rows of table 5, measured costs and transfers, to its four digits.
TEST(Schedules, HaveTheBubblesOfThePaper) {
  const json &paper = getFile()["zero_bubble_paper"];
  for (const auto &[name, costs] : paper["table9"].items()) {
    unsigned points = std::stoi(name.substr(name.find("p=") + 2));
    unsigned microbatches = std::stoi(name.substr(name.find("m=") + 2));
    double work = costs[0].get<double>() + costs[1].get<double>() +
                  costs[2].get<double>();
    for (auto [schedule, row] :
         {std::pair("1f1b", "1F1B"), std::pair("zb-h1", "ZB-H1"),
          std::pair("zb-h2", "ZB-H2")}) {
      SCOPED_TRACE(name + " " + row);
      Order order = makeOrder(schedule, {points, points, microbatches});
      std::string error;
      std::optional<Partition> partition = inferPartition(
          order, {costs[0], costs[1], costs[2], costs[3]}, "order", error);
      ASSERT_TRUE(partition) << error;
      ASSERT_TRUE(verifyOrder(*partition, order, {}, "order", error)) << error;
      Simulation simulation = simulate(*partition, order);
      double bubble = 1 - microbatches * work / simulation.longestSpan;
      EXPECT_NEAR(bubble, paper["table5"][name][row].get<double>(), 5.01e-5);
    }
  }
}

TEST(Schedules, ArePlacedOnOtherPoints) {
  std::string error;
  const Schedule &named = *findSchedule("1f1b");
  auto order = named.place(std::vector<unsigned>{1, 0}, 2, 2, error);
  ASSERT_TRUE(order) << error;
  EXPECT_EQ(print(*order), "1F0,1B0,1F1,1B1\n0F0,0F1,0B0,0B1\n");
  EXPECT_FALSE(findSchedule("interleaved")
                   ->place(std::vector<unsigned>{0, 1, 1, 0}, 2, 4, error));
  EXPECT_EQ(error, "order 'interleaved' has sections 0 and 2 on one point, but "
                   "they lie on points 0 and 1, expected the file of an order");
}
