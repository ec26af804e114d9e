//===- SchedulesTest.cpp - orders with known times ------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Orders/Simulate.h"
#include "tandem/Orders/VerifyOrder.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

using namespace tandem::orders;
using nlohmann::json;

static const json &getSchedules() {
  static const json schedules =
      json::parse(std::ifstream(TANDEM_SCHEDULES), nullptr, false);
  return schedules;
}

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
    partition.sections.push_back(
        {point, true, schedule["F"], schedule["I"], schedule["W"], 1});
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
  ASSERT_EQ(getSchedules()["cases"].size(), 33u);
  for (const json &schedule : getSchedules()["cases"]) {
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
  for (const json &schedule : getSchedules()["cases"]) {
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
  for (const json &schedule : getSchedules()["cases"]) {
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

/// The generators make the orders of the file, which they were not read from.
TEST(Schedules, AreGenerated) {
  unsigned found = 0;
  for (const json &schedule : getSchedules()["cases"]) {
    std::string name = schedule["schedule"];
    if (name != "gpipe" && name != "1f1b")
      continue;
    SCOPED_TRACE(getName(schedule));
    ++found;
    Order order = name == "gpipe" ? makeGpipe(schedule["p"], schedule["m"])
                                  : make1F1B(schedule["p"], schedule["m"]);
    EXPECT_EQ(print(order), getText(schedule["order"]));
  }
  EXPECT_EQ(found, 6u);
}

/// All rows of table 5, measured costs and transfers, to its four digits.
TEST(Schedules, HaveTheBubblesOfThePaper) {
  const json &paper = getSchedules()["zero_bubble_paper"];
  for (const auto &[name, costs] : paper["table9"].items()) {
    SCOPED_TRACE(name);
    unsigned numPoints = std::stoi(name.substr(name.find("p=") + 2));
    unsigned numMicrobatches = std::stoi(name.substr(name.find("m=") + 2));
    Order order = make1F1B(numPoints, numMicrobatches);
    std::string error;
    std::optional<Partition> partition = inferPartition(
        order, {costs[0], costs[1], costs[2], costs[3]}, "order", error);
    ASSERT_TRUE(partition) << error;
    ASSERT_TRUE(verifyOrder(*partition, order, {}, "order", error)) << error;
    Simulation simulation = simulate(*partition, order);
    double work = costs[0].get<double>() + costs[1].get<double>() +
                  costs[2].get<double>();
    double bubble = 1 - numMicrobatches * work / simulation.longestSpan;
    EXPECT_NEAR(bubble, paper["table5"][name].get<double>(), 5.01e-5);
  }
}
